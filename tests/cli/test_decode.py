"""A model is decoded as its recipe says, unless an option says otherwise."""

import json
import re
import shutil
from dataclasses import replace

import pytest

from regard.api import load
from regard.core.errors import BadInput
from regard.experiments.options import SearchOptions
from regard.experiments.search_methods import choose_method
from regard.generation.beam import Beam
from regard.generation.greedy import Greedy
from regard.generation.sample import Sample
from regard.inference.generation_settings import DecodeConfig, as_trained
from small import write_corpus
from verb import run

DECODE = {"beam": 3, "length": "power", "alpha": 4.0}
SEARCH = Beam(3, length="power", alpha=4.0)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with a corpus and a run, and what was printed when it was trained."""
    folder = tmp_path_factory.mktemp("decode")
    recipe = write_corpus(folder)
    recipe.write_text(recipe.read_text().replace("beam = 2", _table(DECODE)))
    settings = ("--set", "train.steps=50", "--set", "train.report_every=50")
    place = ("--data", folder, "--out", folder / "run", "--device", "cpu")
    return folder, run("train", recipe, *place, *settings)


def _table(values):
    return "\n".join(f"{name} = {json.dumps(value)}" for name, value in values.items())


def _scores(text):
    found = dict(re.findall(r"^(BLEU|chrF2|TER) ([0-9.]+)", text, re.MULTILINE))
    assert len(found) == 3
    return found


@pytest.mark.slow
def test_translating_gives_the_score_that_was_printed(trained):
    folder, done = trained
    found = run("translate", folder / "run" / "model", folder / "test.src", "--device", "cpu")
    assert SEARCH.formula in found.stderr
    (folder / "test.hyp").write_text(found.stdout)
    scored = run("bleu", folder / "test.hyp", folder / "test.tgt", "--chrf", "--ter")
    assert _scores(scored.stdout) == _scores(done.stdout)
    other = run("translate", folder / "run" / "model", folder / "test.src", "--length", "none")
    assert other.stdout != found.stdout


@pytest.mark.parametrize("options", [("--precision", "int8"), ()])
def test_scores_are_made_in_the_precision_that_verbs_have(trained, monkeypatch, options):
    folder, _ = trained
    loaded = []
    spy = lambda *given, **how: loaded.append(how["precision"]) or load(*given)  # noqa: E731
    monkeypatch.setattr("regard.api.load", spy)
    run("evaluate", folder / "run" / "model", folder / "small.toml", "--data", folder, *options)
    assert loaded == [options[-1] if options else "auto"]


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the compiler's own
@pytest.mark.filterwarnings("ignore::UserWarning:torch")
def test_translating_gives_the_score_that_was_printed_on_a_gpu(trained, tmp_path):
    folder, _ = trained
    settings = ("--set", "train.steps=50", "--set", "train.precision=fp32")
    place = ("--data", folder, "--out", tmp_path / "run", "--device", "cuda")
    done = run("train", folder / "small.toml", *place, *settings)
    found = run("translate", tmp_path / "run" / "model", folder / "test.src", "--device", "cuda")
    (tmp_path / "test.hyp").write_text(found.stdout)
    scored = run("bleu", tmp_path / "test.hyp", folder / "test.tgt", "--chrf", "--ter")
    assert _scores(scored.stdout) == _scores(done.stdout)


@pytest.mark.thinned
@pytest.mark.parametrize(
    ("options", "search"),
    [
        ((), SEARCH),
        (("--search", "beam"), SEARCH),
        (("--beam", 5), Beam(5, length="power", alpha=4.0)),
        (("--length", "gnmt"), Beam(3, length="gnmt", alpha=4.0)),
        (("--alpha", 0.6), Beam(3, length="power", alpha=0.6)),
        (("--beam", 5, "--length", "gnmt", "--alpha", 0.6), Beam()),
    ],
)
def test_an_option_overrules_only_what_it_names(trained, options, search):
    folder, _ = trained
    model = folder / "run" / "model"
    found = run("translate", model, folder / "test.src", "--device", "cpu", *options)
    texts = (folder / "test.src").read_text().splitlines()
    assert found.stdout.splitlines() == [
        one[0].text for one in load(model, "cpu").translate(texts, search)
    ]
    plain = search.formula.partition(", ends when ")[0]
    assert f"{search}: score = {plain} (p: probability of the text, n: its tokens)" in found.stderr
    if "--search" not in options:
        tree = run("tree", model, "dog cow", "--json", "--device", "cpu", *options)
        assert json.loads(tree.stdout)["formula"] == search.formula


@pytest.mark.parametrize("verb", ["translate", "tree"])
def test_the_help_names_no_default_that_the_model_overrules(verb):
    text = run(verb, "--help").stdout
    for option in ("--beam", "--length", "--alpha", "--no-repeat", "--stop"):
        said = re.findall(rf"(?ms)^  {option} .*?(?=^  -)", text)[-1]
        assert "[default: (the model's)]" in " ".join(said.split())


def test_a_table_and_its_search():
    assert as_trained(DECODE) == SEARCH
    assert DecodeConfig.of(SEARCH).model_dump() == DECODE


def test_the_model_remembers(trained):
    folder, _ = trained
    model, texts = load(folder / "run" / "model", "cpu"), ["dog cow", "owl ibis jay kid lion"]
    assert model.notes["decode"] == DECODE
    assert model.translator.search == SEARCH
    texts_of = [
        [one[0].text for one in model.translate(texts, search)] for search in (None, SEARCH, Beam())
    ]
    assert texts_of[0] == texts_of[1] != texts_of[2]


@pytest.mark.parametrize(
    "wrong",
    [
        3,
        {"beam": 0},
        {"beam": "5"},
        {"length": "long"},
        {"alpha": True},
        {"width": 5},
        {"beam": 2.5},
    ],
)
def test_decoding_options_that_cannot_be_used_are_reported(trained, tmp_path, wrong):
    folder = tmp_path / "model"
    shutil.copytree(trained[0] / "run" / "model", folder)
    config = json.loads((folder / "config.json").read_text())
    config["notes"]["decode"] = wrong
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(BadInput, match=r"config.json: notes.decode"):
        load(folder, "cpu").translate(["dog"])


def test_sampling_takes_the_settings_of_the_folder_and_options_override_one(trained):
    translator = load(trained[0] / "run" / "model", "cpu").translator
    stored = {"temperature": 0.5, "top_k": 7, "do_sample": True, "no_repeat_ngram_size": 2}
    notes = {**translator.notes, "generation": stored}
    translator = replace(translator, loaded=replace(translator.loaded, notes=notes))
    method = choose_method(translator, "sample", SearchOptions(top_k=3, best=4))
    assert method.search == Sample(0.5, 3, 1.0, 4, 0, no_repeat=2)
    method = choose_method(translator, "mbr", SearchOptions(top_k=3, samples=8))
    assert method.search.sample == Sample(0.5, 3, 1.0, 8, 0, no_repeat=2)
    assert choose_method(translator, "greedy", SearchOptions()).search == Greedy(2)
    with pytest.raises(BadInput, match="do_sample"):
        choose_method(translator, None, SearchOptions())
