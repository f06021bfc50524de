"""Tensors of others: in parts, pickled, damaged, or out to do harm."""

import json
import os
import zipfile
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.core.errors import BadInput
from regard.weights.files import read_folder, write_tensors

TENSORS = {"a.weight": torch.arange(6.0).view(2, 3), "b.bias": torch.ones(4).half()}


def assert_same(found):
    assert found.keys() == TENSORS.keys()
    for name, tensor in TENSORS.items():
        assert found[name].dtype == tensor.dtype and torch.equal(found[name], tensor)


def write_parts(folder: Path, name: str) -> Path:
    """Each tensor in a file of its own, and their index."""
    stem, _, suffix = name.rpartition(".")
    places = {}
    for number, (key, tensor) in enumerate(TENSORS.items(), 1):
        places[key] = f"{stem}-0000{number}-of-00002.{suffix}"
        if suffix == "bin":
            torch.save({key: tensor}, folder / places[key])
        else:
            write_tensors(folder / places[key], {key: tensor})
    index = folder / f"{name}.index.json"
    index.write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": places}))
    return index


def test_every_layout_is_read(tmp_path):
    write_tensors(tmp_path / "one" / "model.safetensors", TENSORS)
    (tmp_path / "two").mkdir()
    torch.save(TENSORS, tmp_path / "two" / "pytorch_model.bin")
    (tmp_path / "old").mkdir()
    torch.save(
        TENSORS, tmp_path / "old" / "pytorch_model.bin", _use_new_zipfile_serialization=False
    )
    for kind in ("model.safetensors", "pytorch_model.bin"):
        (tmp_path / kind).mkdir()
        write_parts(tmp_path / kind, kind)
    for folder in ("one", "two", "old", "model.safetensors", "pytorch_model.bin"):
        assert_same(read_folder(tmp_path / folder))


def test_an_unusual_pickle_protocol_is_read_without_a_warning_or_refused(tmp_path):
    path = tmp_path / "pytorch_model.bin"
    torch.save(TENSORS, path, pickle_protocol=3)
    assert_same(read_folder(tmp_path))  # warnings are errors here
    torch.save(TENSORS, path, pickle_protocol=4)
    with pytest.raises(BadInput, match=r"holds more than tensors"):
        read_folder(tmp_path)


def test_safetensors_come_first(tmp_path):
    write_tensors(tmp_path / "model.safetensors", TENSORS)
    (tmp_path / "pytorch_model.bin").write_bytes(b"never looked at")
    assert_same(read_folder(tmp_path))


def test_a_folder_without_weights(tmp_path):
    with pytest.raises(BadInput, match="has no weights"):
        read_folder(tmp_path)


class Harm:
    """Unpickled, it makes a folder."""

    def __init__(self, place: Path):
        self.place = str(place)

    def __reduce__(self):
        return os.mkdir, (self.place,)


@pytest.mark.parametrize("zipped", [True, False])
def test_code_in_a_file_is_not_run(tmp_path, zipped):
    content = {"a.weight": Harm(tmp_path / "harm")}
    path = tmp_path / "pytorch_model.bin"
    torch.save(content, path, _use_new_zipfile_serialization=zipped)
    with pytest.raises(BadInput, match=r"pytorch_model\.bin: is damaged or holds more") as caught:
        read_folder(tmp_path)
    assert "\n" not in str(caught.value) and "weights_only" not in str(caught.value)
    assert not (tmp_path / "harm").exists()


@pytest.mark.parametrize(
    "content", [[torch.ones(1)], {"a": 3}, {4: torch.ones(1)}, {"a": torch.eye(2).to_sparse()}]
)
def test_what_is_not_named_tensors_is_refused(tmp_path, content):
    torch.save(content, tmp_path / "pytorch_model.bin")
    with pytest.raises(BadInput, match=r"pytorch_model\.bin: .*tensor"):
        read_folder(tmp_path)


@given(st.floats(0, 0.999), st.sampled_from(["model.safetensors", "pytorch_model.bin"]))
def test_a_truncated_file_is_named(tmp_path_factory, share, kind):
    folder = tmp_path_factory.mktemp("cut")
    path = folder / kind
    if kind.endswith("bin"):
        torch.save(TENSORS, path)
    else:
        write_tensors(path, TENSORS)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(BadInput, match=kind):
        read_folder(folder)


def test_a_hole_of_any_size_is_no_memory(tmp_path):
    for name in ("model.safetensors", "pytorch_model.bin"):
        with (tmp_path / name).open("wb") as file:
            file.truncate(1 << 40)
        with pytest.raises(BadInput, match=name):
            read_folder(tmp_path)
        (tmp_path / name).unlink()


def test_a_zip_of_something_else(tmp_path):
    with zipfile.ZipFile(tmp_path / "pytorch_model.bin", "w") as file:
        file.writestr("archive/data.pkl", b"\x80\x02}q\x00.junk")
    with pytest.raises(BadInput, match=r"pytorch_model\.bin"):
        read_folder(tmp_path)


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("../model-00001-of-00002.safetensors", "is not a file of its folder"),
        ("/etc/hostname", "is not a file of its folder"),
        ("..", "cannot be read"),
        ("", "is not a file of its folder|cannot be read"),
        (3, "is not a file of its folder"),
        ("gone.safetensors", "gone.safetensors: cannot be read"),
        ("model-00002-of-00002.safetensors", "missing: a.weight"),
    ],
)
def test_an_index_stays_in_its_folder_and_tells_the_truth(tmp_path, place, said):
    (tmp_path / "inner").mkdir()
    index = write_parts(tmp_path / "inner", "model.safetensors")
    write_parts(tmp_path, "model.safetensors")  # one folder up there are files of that name
    content = json.loads(index.read_text())
    content["weight_map"]["a.weight"] = place
    index.write_text(json.dumps(content))
    with pytest.raises(BadInput, match=said):
        read_folder(tmp_path / "inner")


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"weight_map": []}'])
def test_an_index_that_is_none(tmp_path, text):
    (tmp_path / "model.safetensors.index.json").write_text(text)
    with pytest.raises(BadInput, match=r"model\.safetensors\.index\.json"):
        read_folder(tmp_path)


def test_a_part_with_more_than_the_index_says(tmp_path):
    index = write_parts(tmp_path, "pytorch_model.bin")
    content = json.loads(index.read_text())
    torch.save(TENSORS, tmp_path / content["weight_map"]["a.weight"])
    with pytest.raises(BadInput, match=r"unknown: b\.bias"):
        read_folder(tmp_path)
