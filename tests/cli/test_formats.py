"""``regard convert --list-formats``: what can express a model, and what to change if nothing."""

import json
from dataclasses import replace

import pytest

from bert_folders import write_bert
from marian_folders import write_marian
from regard.core.errors import BadInput
from regard.models.facts import change
from regard.models.folders import folder as folders
from regard.models.folders.loaded_model import LoadedModel
from regard.models.papers import bahdanau, marian, t5
from safety.frozen_folders import MODELS
from verb import run

pytest.importorskip("transformers")
pytest.importorskip("sentencepiece")

TRANSLATORS = '"marian" (text.kind = "sentencepiece"), "t5" (task = "text-to-text")'


def formats_of(folder) -> dict[str, str]:
    """The rest of the line of each format."""
    lines = run("convert", folder, "--list-formats").stdout.splitlines()
    return {name: rest.strip() for name, _, rest in (line.partition(" ") for line in lines)}


def small(paper, **changes) -> LoadedModel:
    facts = change(paper.sizes[paper.default_size], width=8, vocab=400, **changes)
    return LoadedModel(paper, facts, facts.build())


def test_a_recurrent_translator(tmp_path):
    folders.write(tmp_path / "rnn", small(bahdanau.PAPER, embedding=8))
    formats = formats_of(tmp_path / "rnn")
    assert [*formats] == ["regard", "hf", "elmo", "timm", "onnx"] and formats["regard"] == "yes"
    assert formats["hf"].startswith("no: Bahdanau: the hf format does not support this paper; ")
    assert f"train with another model.paper: {TRANSLATORS}" in formats["hf"]
    assert formats["elmo"].startswith("no: ") and formats["timm"].startswith("no: ")
    assert formats["onnx"].startswith("no: Bahdanau: recurrent layers cannot be exported")


def test_a_pre_norm_transformer(small_run):
    reason = formats_of(small_run / "run" / "model")["hf"]
    assert "source.stack.norm is 'pre', not 'post'" in reason and TRANSLATORS in reason
    assert '"transformer"' not in reason


def test_marian_with_another_norm(tmp_path):
    folders.write(tmp_path / "pre", small(marian.PAPER, depth=1, inner=8, heads=2, norm="pre"))
    reason = formats_of(tmp_path / "pre")["hf"]
    assert "norm is 'pre', not 'post'" in reason
    assert reason.endswith("train with the other values (model.change)")


def test_a_vocabulary_that_is_not_sentencepiece(small_run):
    trained = folders.read(small_run / "run" / "model")
    marian_model = small(marian.PAPER, depth=1, inner=8, heads=2)
    reason = folders.refusals(replace(marian_model, tokenizer=trained.tokenizer))["hf"]
    assert "has a bpe vocabulary; train with text.kind" in reason
    t5_model = small(t5.PAPER, depth=1, inner=8, heads=2)
    refusals = folders.refusals(replace(t5_model, tokenizer=trained.tokenizer))
    assert refusals["hf"].endswith('but this model has another; train with task = "text-to-text"')
    assert folders.refusals(t5_model)["hf"] is None


def test_a_vocabulary_of_words():
    reason = formats_of(MODELS / "regard-dai")["hf"]
    assert reason.startswith("no: Dai: ") and 'model.paper: "bert", ' in reason
    assert "gpt" not in reason and "vit" not in reason and "marian" not in reason
    assert '"gpt-2"' in formats_of(MODELS / "regard-zaremba")["hf"]


def test_marian(tmp_path):
    formats = formats_of(write_marian(tmp_path / "hf"))
    assert [name for name, said in formats.items() if said == "yes"] == ["regard", "hf", "onnx"]


def test_a_classifier(tmp_path):
    folder = write_bert(tmp_path / "hf", "one label")
    done = run("convert", folder, "--list-formats", "--json")
    records = [json.loads(line) for line in done.stdout.splitlines()]
    reasons = {record["format"]: record["reason"] for record in records}
    assert reasons["regard"] is reasons["hf"] is reasons["onnx"] is None
    assert "supports only ELMo" in reasons["elmo"] and "only vit and deit" in reasons["timm"]


def test_what_is_refused_can_be_written_otherwise(small_run, tmp_path):
    model = small_run / "run" / "model"
    done = run("convert", model, tmp_path / "x", "--to", "hf", code=2)
    assert done.stderr.endswith("; formats that can express it as it is: regard, onnx\n")
    assert len(done.stderr.splitlines()) == 1 and not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "name a folder to write and its format"),
        (["x"], "name a folder to write and its format"),
        (["--to", "hf"], "name a folder to write and its format"),
        (["x", "--list-formats"], "--list-formats writes nothing: remove DST and --to"),
        (["--to", "hf", "--list-formats"], "--list-formats writes nothing: remove DST and --to"),
    ],
)
def test_what_is_missing_or_too_much(small_run, words, message):
    done = run("convert", small_run / "run" / "model", *words, code=2)
    assert message in done.stderr and len(done.stderr.splitlines()) == 1


@pytest.mark.thinned
@pytest.mark.parametrize(
    "name", sorted(path.name for path in MODELS.glob("regard-*") if path.is_dir())
)
def test_a_format_with_yes_is_written(name, tmp_path):
    """The list is true: what it says can be written is written, and the rest is refused."""
    pytest.importorskip("PIL")
    pytest.importorskip("h5py")
    model = folders.read(MODELS / name)
    for format, reason in folders.refusals(model).items():
        if reason is None and format == "onnx":
            continue  # takes long: tests/models/folders/test_onnx.py
        if reason is None:
            folders.write(tmp_path / format, model, format)
            assert any((tmp_path / format).iterdir())
        else:
            with pytest.raises(BadInput) as caught:
                folders.write(tmp_path / format, model, format)
            assert str(caught.value) == reason and "\n" not in reason
            assert not (tmp_path / format).exists()
