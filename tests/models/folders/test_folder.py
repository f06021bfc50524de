"""A model on disk: what is written comes back bit for bit, and what is not ours is refused."""

import json
import os

import pytest
import torch

from regard.core.errors import BadInput
from regard.models.folders import folder as folders
from regard.weights.files import read_tensors, weights_of, write_tensors
from small_bert import small_bert


@pytest.fixture
def stored(small_run, tmp_path):
    found = folders.read(small_run / "run" / "model")
    folders.write(tmp_path / "copy", found)
    return found, tmp_path / "copy"


def test_round_trip_is_bit_exact(stored, small_run):
    found, copy = stored
    again = folders.read(copy)
    assert again.facts == found.facts
    assert again.paper is found.paper
    assert again.notes == found.notes
    one, other = weights_of(found.module), weights_of(again.module)
    assert all(torch.equal(one[name], other[name]) for name in one)
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        assert (copy / name).read_bytes() == (small_run / "run" / "model" / name).read_bytes()


def test_tied_tensors_are_stored_once_and_stay_tied(stored):
    _, copy = stored
    assert "head.weight" not in read_tensors(copy / "model.safetensors")
    module = folders.read(copy).module
    assert module.head.weight is module.source.embed.token.weight
    assert module.head.weight is module.target.embed.token.weight


def test_without_tokenizer_files_it_still_loads(stored):
    _, copy = stored
    (copy / "tokenizer.json").unlink()
    assert folders.read(copy).tokenizer is None


def change_config(copy, **changes):
    path = copy / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"regard": 1}, "written in format 1 of regard, .* reads 2: train the model again"),
        ({"regard": 99}, "written in format 99 of regard"),
        ({"paper": "tranformer"}, "did you mean 'transformer'"),
        ({"facts": {"is": "Facts"}}, "config.json"),
        ({"facts": {"is": "os.system"}}, "unknown class 'os.system'"),
        ({"facts": 3}, "3 is not an object with the facts"),
        (
            {"tokenizer": ["translation"]},
            r"unknown tokenizer \['translation'\]; supported: translation, ",
        ),
        ({"hf": {}}, "the key hf must be an object"),
        ({"hf": {}, "paper": "cho"}, "Cho has no Hugging Face format"),
    ],
)
def test_a_config_that_is_not_ours_is_refused(stored, changes, said):
    _, copy = stored
    change_config(copy, **changes)
    with pytest.raises(BadInput, match=said):
        folders.read(copy)


def test_tensors_that_do_not_fit_are_listed(stored):
    _, copy = stored
    tensors = read_tensors(copy / "model.safetensors")
    tensors["extra"] = torch.zeros(1)
    del tensors["source.norm.weight"]
    tensors["target.norm.bias"] = torch.zeros(99)
    write_tensors(copy / "model.safetensors", tensors)
    with pytest.raises(BadInput) as caught:
        folders.read(copy)
    for part in ("missing: source.norm.weight", "unknown: extra", "target.norm.bias is [99]"):
        assert part in str(caught.value)


@pytest.mark.parametrize("damage", [b"", b"\x80\x04garbage", b"\xff" * 64])
def test_damaged_weights_are_named(stored, damage):
    _, copy = stored
    (copy / "model.safetensors").write_bytes(damage)
    with pytest.raises(BadInput, match=r"model\.safetensors: cannot be read"):
        folders.read(copy)


def test_no_folder(tmp_path):
    with pytest.raises(BadInput, match="no such folder"):
        folders.read(tmp_path / "nowhere")
    with pytest.raises(BadInput, match=r"not a model folder: it has no config\.json$"):
        folders.read(tmp_path)


@pytest.mark.parametrize("dtype", [torch.int8, torch.float64, torch.int64, torch.bool])
def test_tensors_are_floats_as_folders_have_them(stored, dtype):
    _, copy = stored
    tensors = read_tensors(copy / "model.safetensors")
    tensors["source.norm.bias"] = torch.zeros(16, dtype=dtype)
    write_tensors(copy / "model.safetensors", tensors)
    said = str(dtype).removeprefix("torch.")
    with pytest.raises(BadInput, match=rf"source\.norm\.bias is {said}, not float32"):
        folders.read(copy)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_tensors_are_read(stored, dtype):
    _, copy = stored
    tensors = read_tensors(copy / "model.safetensors")
    write_tensors(
        copy / "model.safetensors", {name: one.to(dtype) for name, one in tensors.items()}
    )
    found = weights_of(folders.read(copy).module)
    assert all(torch.equal(found[name], one.to(dtype).float()) for name, one in tensors.items())


@pytest.mark.parametrize("notes", [3, [], "longest", None, [["cost", 1]]])
def test_notes_are_a_table(stored, notes):
    _, copy = stored
    change_config(copy, notes=notes)
    with pytest.raises(BadInput, match=r"config\.json: notes is not a table"):
        folders.read(copy)


def test_a_piece_beyond_the_vocabulary_is_refused(stored):
    found, copy = stored
    path = copy / "tokenizer.json"
    content = json.loads(path.read_text())
    content["model"]["vocab"]["e"] = len(found.tokenizer.source)
    path.write_text(json.dumps(content))
    with pytest.raises(BadInput, match="source tokens, but the model has"):
        folders.read(copy)


@pytest.fixture(params=["translator", "classifier", "encoder", "tagger", "BERT"])
def folder(request, small_run, owl_run, tmp_path):
    """A folder of that kind."""
    runs = {"translator": small_run, "classifier": owl_run}
    if (run := runs.get(request.param)) is not None:
        folders.write(tmp_path / "it", folders.read(run / "run" / "model"))
    else:
        kind, format = ("tags" if request.param == "tagger" else "words"), request.param == "BERT"
        folders.write(tmp_path / "it", small_bert(kind), "hf" if format else "regard")
    return tmp_path / "it"


@pytest.mark.thinned
def test_no_pipe_or_device_is_waited_for(folder):
    for path in sorted(folder.iterdir()):
        kept = path.rename(folder.parent / "kept")
        for make in (os.mkfifo, lambda path: path.symlink_to("/dev/zero")):
            make(path)
            with pytest.raises(BadInput, match=rf"{path.name}: cannot be read \(not a regular"):
                folders.read(folder)
            path.unlink()
        path.symlink_to(kept)  # a link to a file is as good as the file
        folders.read(folder)
        path.unlink()
        kept.rename(path)
