"""The limit of new tokens of every model that writes text, and texts that are unfinished there."""

import inspect
import json
import shutil

import pytest
import torch

import regard
from marian_folders import reference_model, sentences, write_marian
from regard.core.errors import BadInput
from regard.generation import Beam, Diverse, Greedy, MinimumRisk, Sample
from regard.inference.decoder_model import NEW_TOKENS
from regard.inference.translator import GROWTH, MARGIN
from regard.serving.apis.own import PATHS
from small_gpt import write_gpt2
from verb import run

pytest.importorskip("transformers")
pytest.importorskip("sentencepiece")

WRITERS = ("translate", "generate")
TEXTS = [source for source, _ in sentences()[:2]]
LONG = " ".join(source for source, _ in sentences()[:6])
RISK = MinimumRisk(Sample(count=2))
SEARCHES = (Greedy(), Sample(seed=1), Beam(2, best=2), Diverse(Beam(2), 2), RISK)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A translator whose generation_config.json sets no length, as those of T5 and flan-T5."""
    torch.manual_seed(3)
    folder = write_marian(tmp_path_factory.mktemp("silent"), max_position_embeddings=512)
    set_generation(folder)
    return folder


def set_generation(folder, **settings):
    """Write a generation_config.json of special tokens and these settings."""
    config = json.loads((folder / "config.json").read_text())
    names = "decoder_start_token_id", "eos_token_id", "pad_token_id"
    ids = {name: config[name] for name in names}
    settings = {"bad_words_ids": [[config["pad_token_id"]]], **ids, **settings}
    (folder / "generation_config.json").write_text(json.dumps(settings))


@pytest.fixture(scope="module")
def model(folder):
    return regard.load(folder, "cpu")


def lengths(written):
    return [len(best.hypothesis.logprobs) for best, *_ in written]


@pytest.mark.parametrize("writer", WRITERS)
def test_python_command_line_and_server_have_the_limit(writer):
    assert "max_new_tokens" in inspect.signature(getattr(regard.Model, writer)).parameters
    assert "--max-new-tokens" in run(writer, "--help").stdout
    assert "max_new_tokens" in PATHS[writer][1].__struct_fields__


@torch.no_grad()
def test_a_silent_generation_config_does_not_cut_texts(folder, model):
    rows = [model.translator.read_rows([text])[0] for text in (*TEXTS, LONG)]
    written = model.translate(rows, Greedy())
    limits = [max(NEW_TOKENS, GROWTH * (len(row) - 1) + MARGIN) for row in rows]
    assert limits[0] == NEW_TOKENS < limits[-1]
    for row, limit, (best,) in zip(rows, limits, written, strict=True):
        source = torch.tensor([row])
        (theirs,) = reference_model(folder).generate(source, max_new_tokens=limit, do_sample=False)
        tokens = theirs[1:].tolist()
        ends = model.translator.ends[0] in tokens
        assert [*best.hypothesis.tokens] == tokens[: len(tokens) - ends]
        assert best.ended == ("eos" if ends else "length")
    assert "length" in {best.ended for (best,) in written}


@pytest.mark.parametrize("search", SEARCHES, ids=lambda search: type(search).__name__)
def test_the_limit_holds_for_every_search(model, search):
    written = model.translate(TEXTS, search, max_new_tokens=3)
    assert max(lengths(written)) == 3
    for best, *_ in written:
        assert (best.ended == "eos") == best.hypothesis.finished


def test_the_limit_overrides_the_published_one_and_counts_after_the_prefix(folder, tmp_path):
    torch.manual_seed(3)
    write_marian(tmp_path)
    set_generation(tmp_path, max_length=6)
    model = regard.load(tmp_path, "cpu")
    assert lengths(model.translate(TEXTS[:1], Greedy())) == [5]
    assert lengths(model.translate(TEXTS[:1], Greedy(), max_new_tokens=9)) == [9]
    prefix = "die"
    begun = len(model.translator.vocabulary.encode(prefix))
    (found,) = model.translate(TEXTS[:1], Greedy(), [prefix], max_new_tokens=2)
    assert len(found[0].hypothesis.tokens) == begun + 2
    for wrong in (0, -1, 2.5):
        with pytest.raises(BadInput, match="max_new_tokens"):
            model.translate(TEXTS[:1], max_new_tokens=wrong)


def test_a_model_of_its_own_recipe_keeps_twice_the_source(small_run):
    translator = regard.load(small_run / "run" / "model", "cpu").translator
    ids = translator.read_rows(["the"])
    (longest,) = translator._limits(ids, None).longest_of(1)
    assert longest == GROWTH * (len(ids[0]) - 1) + MARGIN


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("best", [1, 2])
def test_unfinished_texts_are_counted(writer, best, folder, tmp_path):
    place = folder if writer == "translate" else write_gpt2(tmp_path / "gpt")
    options = "--max-new-tokens", 4, "--beam", 2, "--best", best, "--device", "cpu"
    (tmp_path / "texts").write_text("".join(f"{text[:20]}\n" for text in TEXTS))
    done = run(writer, place, tmp_path / "texts", *options)
    note = f"{2 * best} of {2 * best} texts are unfinished: they end at the limit of new tokens"
    assert f"{note} (max_new_tokens)" in done.stderr
    done = run(writer, place, tmp_path / "texts", *options, "--json")
    assert {json.loads(line)["ended"] for line in done.stdout.splitlines()} == {"length"}


def test_finished_texts_are_not(folder, tmp_path):
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    set_generation(tmp_path, max_length=6, forced_eos_token_id=0)
    done = run("translate", tmp_path, "-", "--device", "cpu", stdin=TEXTS[0])
    assert "unfinished" not in done.stderr
