"""``regard convert``: checked, whole or not at all, and never over anything."""

import json
import shutil

import pytest
import torch

from marian_folders import reference_model, sentences, write_marian
from regard.core.batch import TokenRow
from regard.core.errors import BadInput
from regard.inside import hf_reference, parity
from regard.models.folders import hf
from regard.weights.files import read_folder, read_tensors, write_tensors
from verb import run

transformers = pytest.importorskip("transformers")
pytest.importorskip("sentencepiece")

LAYERS = [
    *("encoder embedding", "encoder block 1", "encoder block 2"),
    *("decoder embedding", "decoder block 1", "decoder block 2", "decoder block 3"),
    *("next_token logits", "ids of texts"),
]


@pytest.fixture(scope="module")
def marian(tmp_path_factory):
    torch.manual_seed(0)
    return write_marian(tmp_path_factory.mktemp("convert") / "opus")


def assert_nothing_left(folder):
    """Neither what was asked for nor what it was written to on the way."""
    assert [path.name for path in folder.iterdir()] == []


def test_there_and_back(marian, tmp_path):
    there = run("convert", marian, tmp_path / "ours", "--to", "regard", "--check")
    back = run("convert", tmp_path / "ours", tmp_path / "theirs", "--to", "hf", "--check", "--json")
    header, *lines = there.stdout.splitlines()
    assert header.split() == ["largest", "difference", "read", "back", "transformers"]
    assert [line[:20].strip() for line in lines] == LAYERS
    assert all(float(number) <= 1e-5 for line in lines for number in line[20:].split())
    assert [len(line[20:].split()) for line in lines] == [2] * len(LAYERS)
    records = [json.loads(line) for line in back.stdout.splitlines()]
    assert [record["layer"] for record in records] == LAYERS
    assert all(set(record) == {"layer", "read back", "transformers"} for record in records)
    assert f"wrote {tmp_path / 'ours'}" in there.stderr
    one, other = read_folder(marian), read_folder(tmp_path / "theirs")
    assert one.keys() == other.keys() and all(torch.equal(one[n], other[n]) for n in one)
    assert {path.name for path in tmp_path.iterdir()} == {"ours", "theirs"}


@pytest.mark.parametrize("positions", [5, 16])
def test_examples_are_cut_to_the_positions_of_the_reference(positions, tmp_path):
    marian = write_marian(tmp_path / "opus", max_position_embeddings=positions)
    there = run("convert", marian, tmp_path / "ours", "--to", "regard", "--check")
    back = run("convert", marian, tmp_path / "theirs", "--to", "hf", "--check")
    for done in (there, back):
        _, *lines = done.stdout.splitlines()
        assert [line[:20].strip() for line in lines] == LAYERS
        assert [len(line[20:].split()) for line in lines] == [2] * len(LAYERS)


@pytest.mark.parametrize("place", ["from_pretrained", "forward"])
def test_an_error_of_transformers_is_one_line(place, marian, tmp_path, monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("no such\noperator")

    monkeypatch.setattr(transformers.MarianMTModel, place, fail)
    done = run("convert", marian, tmp_path / "theirs", "--to", "hf", "--check", code=2)
    assert "transformers cannot" in done.stderr and "(no such operator)" in done.stderr
    assert_nothing_left(tmp_path)


def test_what_was_written_translates(marian, tmp_path):
    run("convert", marian, tmp_path / "ours", "--to", "regard")
    text = sentences()[0][0] + "\n"
    folders = (marian, tmp_path / "ours")
    said = [run("translate", folder, "--beam", 2, stdin=text).stdout for folder in folders]
    assert said[0] == said[1] != "\n"


def test_unknown_words_are_named(marian):
    done = run("translate", marian, "--search", "greedy", stdin="The 日本 man\n")
    assert "line 1: not in the vocabulary: 日本" in done.stderr


def test_a_regard_model_is_copied_without_transformers(small_run, tmp_path):
    model = small_run / "run" / "model"
    done = run("convert", model, tmp_path / "copy", "--to", "regard", "--check")
    assert done.stdout.splitlines()[0].split() == ["largest", "difference", "read", "back"]
    assert (tmp_path / "copy" / "config.json").read_bytes() == (model / "config.json").read_bytes()


def test_a_model_without_vocabulary(marian, tmp_path):
    shutil.copytree(marian, tmp_path / "bare")
    for name in ("source.spm", "target.spm", "vocab.json"):
        (tmp_path / "bare" / name).unlink()
    done = run("convert", tmp_path / "bare", tmp_path / "ours", "--to", "regard", "--check")
    assert "ids of texts" not in done.stdout and "transformers" in done.stdout


def test_without_transformers_it_says_so(marian, tmp_path, monkeypatch):
    monkeypatch.setattr(hf_reference, "is_installed", lambda: False)
    done = run("convert", marian, tmp_path / "ours", "--to", "regard", "--check")
    assert "transformers is not installed" in done.stderr
    assert "transformers" not in done.stdout


def test_a_wrong_tensor_leaves_nothing(marian, tmp_path, monkeypatch):
    def spoilt(path, tensors):
        name = "model.decoder.layers.1.fc1.bias"
        write_tensors(path, {**tensors, name: tensors[name] + 1e-3})

    monkeypatch.setattr(hf, "write_tensors", spoilt)
    done = run("convert", marian, tmp_path / "copy", "--to", "hf", "--check", code=1)
    found = {line[:20].strip(): line[20:].split() for line in done.stdout.splitlines()[1:]}
    assert float(found["decoder block 1"][0]) == 0
    assert float(found["decoder block 2"][0]) > 1e-5 < float(found["next_token logits"][1])
    assert "not written: differs by" in done.stderr
    assert_nothing_left(tmp_path)
    run("convert", marian, tmp_path / "copy", "--to", "hf")  # nobody asked


def test_a_disagreement_with_transformers_leaves_nothing(marian, tmp_path, monkeypatch):
    def spoilt(folder, facts):
        model = reference_model.__wrapped__(folder)
        model.final_logits_bias += 1e-3
        return model

    monkeypatch.setattr(hf_reference, "load_model", spoilt)
    done = run("convert", marian, tmp_path / "ours", "--to", "regard", "--check", code=1)
    *_, logits, _ = done.stdout.splitlines()
    assert float(logits.split()[-2]) == 0 and float(logits.split()[-1]) > 1e-5
    assert_nothing_left(tmp_path)


@pytest.mark.slow
def test_other_ids_leave_nothing(marian, tmp_path, monkeypatch):
    row = TokenRow([1], [0])
    others = [{"source": row, "target": row}] * 8
    monkeypatch.setattr(hf_reference, "text_examples", lambda *_: others)
    done = run("convert", marian, tmp_path / "ours", "--to", "regard", "--check", code=1)
    assert done.stdout.splitlines()[-1].split() == ["ids", "of", "texts", "0", "16"]
    assert_nothing_left(tmp_path)


def test_what_is_not_a_number_does_not_agree(marian, tmp_path):
    shutil.copytree(marian, tmp_path / "broken")
    tensors = read_tensors(marian / "model.safetensors")
    tensors["final_logits_bias"][0, 3] = torch.nan
    write_tensors(tmp_path / "broken" / "model.safetensors", tensors)
    run("convert", tmp_path / "broken", tmp_path / "ours", "--to", "regard", "--check", code=1)
    assert not (tmp_path / "ours").exists()


def test_a_failed_write_leaves_nothing(marian, tmp_path, monkeypatch):
    def full(path, tensors):
        raise BadInput("the disk is full")

    monkeypatch.setattr(hf, "write_tensors", full)
    assert "the disk is full" in run("convert", marian, tmp_path / "x", "--to", "hf", code=2).stderr
    assert_nothing_left(tmp_path)


def test_nothing_is_overwritten(marian, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("precious")
    (tmp_path / "file").write_text("precious")
    (tmp_path / "locked").mkdir()
    (tmp_path / "locked" / "run.lock").touch()  # a run may be about to begin there
    for name in ("full", "file", "locked"):
        done = run("convert", marian, tmp_path / name, "--to", "hf", code=2)
        assert "exists and is not overwritten" in done.stderr
    assert (tmp_path / "full" / "mine").read_text() == "precious"
    (tmp_path / "empty").mkdir()
    run("convert", marian, tmp_path / "empty", "--to", "hf")
    run("convert", marian, tmp_path / "new" / "deep", "--to", "hf")
    assert (tmp_path / "empty" / "config.json").exists()
    assert (tmp_path / "new" / "deep" / "config.json").exists()


@pytest.mark.parametrize("to", ["gguf", "HF", ""])
def test_an_unknown_form(marian, tmp_path, to):
    refused = run("convert", marian, tmp_path / "x", "--to", to, code=2).stderr
    assert f"{to!r} is not one of 'hf', 'regard'" in refused


def test_bad_input_is_one_line(small_run, tmp_path):
    for source, said in (
        (small_run / "run" / "model", "the Marian format cannot express this model"),
        (tmp_path / "nowhere", "no such folder"),
    ):
        done = run("convert", source, tmp_path / "x", "--to", "hf", code=2)
        assert said in done.stderr and len(done.stderr.splitlines()) == 1
        assert_nothing_left(tmp_path)


def test_other_ids_are_counted_on_either_side():
    def examples(*texts):
        rows = [TokenRow([ord(letter) for letter in text], [0] * len(text)) for text in texts]
        return [dict(zip(("source", "target"), rows[i : i + 2], strict=True)) for i in (0, 2)]

    ours = examples("A", "b", "c", "D")
    assert parity.count_differing_rows(ours, examples("A", "b", "c", "D")) == 0
    assert parity.count_differing_rows(ours, examples("A", "b", "C", "D")) == 1
    assert parity.count_differing_rows(ours, examples("A", "B", "C", "D")) == 2
    segments = [{side: row._replace(segments=[1]) for side, row in one.items()} for one in ours]
    assert parity.count_differing_rows(ours, segments) == 4
