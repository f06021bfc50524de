"""HDF5 files from strangers: only numbers in the file itself are read, and only if they fit."""

import json
import time
from itertools import product

import numpy as np
import pytest
import torch

import regard
from regard.core.errors import BadInput
from regard.weights import WeightMap
from regard.weights.hdf5 import describe_hdf5, read_hdf5
from small_elmo import OPTIONS, write_elmo

h5py = pytest.importorskip("h5py")

SHAPE = (261, 3)  # of char_embed in a small ELMo
SECRET = np.arange(261 * 3, dtype=np.float32)


def external(file, secret, tmp_path):
    file.create_dataset("char_embed", SHAPE, "f4", external=[(str(secret), 0, SECRET.nbytes)])


def virtual(file, secret, tmp_path):
    with h5py.File(tmp_path / "other.hdf5", "w") as other:
        other["secret"] = SECRET.reshape(SHAPE)
    layout = h5py.VirtualLayout(SHAPE, "f4")
    layout[:] = h5py.VirtualSource(tmp_path / "other.hdf5", "secret", SHAPE)
    file.create_virtual_dataset("char_embed", layout)


def external_link(file, secret, tmp_path):
    with h5py.File(tmp_path / "other.hdf5", "w") as other:
        other["secret"] = SECRET.reshape(SHAPE)
    file["char_embed"] = h5py.ExternalLink(tmp_path / "other.hdf5", "secret")


def soft_link(file, secret, tmp_path):
    file["elsewhere"] = SECRET.reshape(SHAPE)
    file["char_embed"] = h5py.SoftLink("/elsewhere")


def linked_group(file, secret, tmp_path):
    file["char_embed"] = SECRET.reshape(SHAPE)
    file.move("CNN_proj", "elsewhere")
    file["CNN_proj"] = h5py.SoftLink("/elsewhere")


def unwritten(file, secret, tmp_path):
    file.create_dataset("char_embed", (10**6, 10**6), "f4")


def too_many(file, secret, tmp_path):
    file.create_dataset("char_embed", (2**40, 2**40), "f4", chunks=(1, 1))


def compressed(file, secret, tmp_path):
    file.create_dataset("char_embed", data=SECRET.reshape(SHAPE), compression="gzip")


def long_double(file, secret, tmp_path):
    file["char_embed"] = SECRET.reshape(SHAPE).astype(np.longdouble)


def integers(file, secret, tmp_path):
    file["char_embed"] = SECRET.reshape(SHAPE).astype("i4")


def words(file, secret, tmp_path):
    file["char_embed"] = "text"


def nothing(file, secret, tmp_path):
    file["char_embed"] = h5py.Empty("f4")


def group(file, secret, tmp_path):
    file.create_group("char_embed")


def dataset_for_a_group(file, secret, tmp_path):
    file["char_embed"] = SECRET.reshape(SHAPE)
    del file["CNN_proj"]
    file["CNN_proj"] = SECRET


@pytest.mark.parametrize(
    "craft, message",
    [
        (external, "char_embed is stored in another file"),
        (virtual, "char_embed is stored in another file"),
        (external_link, "char_embed is a link to another place"),
        (soft_link, "char_embed is a link to another place"),
        (linked_group, "CNN_proj is a link to another place"),
        (unwritten, r"misshapen: char_embed is \[1000000, 1000000\], not \[261, 3\]"),
        (too_many, "char_embed is stored in chunks"),
        (compressed, "char_embed is stored in chunks"),
        (long_double, "char_embed holds no floating-point numbers of 16 or 32 bits"),
        (integers, "char_embed holds no floating-point numbers"),
        (words, "char_embed holds no floating-point numbers"),
        (nothing, "char_embed holds no floating-point numbers"),
        (group, "char_embed holds no floating-point numbers"),
        (dataset_for_a_group, "missing: CNN_proj/W_proj, CNN_proj/b_proj; unknown: CNN_proj"),
    ],
)
def test_hostile_datasets_are_refused(tmp_path, monkeypatch, craft, message):
    folder = write_elmo(tmp_path / "model")
    SECRET.tofile(tmp_path / "secret")
    with h5py.File(folder / "weights.hdf5", "a") as file:
        del file["char_embed"]
        craft(file, tmp_path / "secret", tmp_path)
    for read in ("read_direct", "__getitem__"):
        monkeypatch.setattr(h5py.Dataset, read, None)
    with pytest.raises(BadInput, match=message) as error:
        regard.load(folder, "cpu")
    assert "\n" not in str(error.value)


def test_shapes_are_compared_before_reading(tmp_path, monkeypatch):
    folder = write_elmo(tmp_path)
    with h5py.File(folder / "weights.hdf5", "a") as file:
        del file["char_embed"]
        file["char_embed"] = np.zeros((300, 3), np.float32)
    monkeypatch.setattr(h5py.Dataset, "read_direct", None)
    with pytest.raises(BadInput, match=r"misshapen: char_embed is \[300, 3\], not \[261, 3\]"):
        regard.load(folder, "cpu")


def test_unwritten_datasets_of_the_right_shape_are_refused(tmp_path):
    cells, width = 10**8, 4
    options = {**OPTIONS, "lstm": {**OPTIONS["lstm"], "dim": cells}}
    folder = write_elmo(tmp_path)
    (folder / "options.json").write_text(json.dumps(options))
    shapes = {"W_0": (2 * width, 4 * cells), "B": (4 * cells,), "W_P_0": (cells, width)}
    with h5py.File(folder / "weights.hdf5", "a") as file:
        for way, layer, (name, shape) in product((0, 1), (0, 1), shapes.items()):
            group = file[f"RNN_{way}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"]
            del group[name]
            group.create_dataset(name, shape, "f4")
    with pytest.raises(
        BadInput, match=r"its datasets need 64,000,\d+,\d+ bytes, but the file has only"
    ):
        regard.load(folder, "cpu")


@pytest.mark.parametrize("dtype", [">f4", "<f4"])
def test_both_byte_orders_load(tmp_path, dtype):
    folder = write_elmo(tmp_path)
    with h5py.File(folder / "weights.hdf5", "a") as file:
        del file["char_embed"]
        file["char_embed"] = SECRET.reshape(SHAPE).astype(dtype)
    weight = regard.load(folder, "cpu").module.trunk.embed.token.weight
    assert torch.equal(weight, torch.from_numpy(SECRET.reshape(SHAPE)))


@pytest.mark.parametrize("dtype", ["f2", "f8", np.longdouble])
def test_types_that_load_are_those_that_messages_name(tmp_path, dtype):
    folder = write_elmo(tmp_path)
    with h5py.File(folder / "weights.hdf5", "a") as file:
        del file["char_embed"]
        file["char_embed"] = SECRET.reshape(SHAPE).astype(dtype)
    if dtype == "f2":
        weight = regard.load(folder, "cpu").module.trunk.embed.token.weight
        assert torch.equal(weight, torch.from_numpy(SECRET.reshape(SHAPE)))
        return
    with pytest.raises(BadInput, match=r"is float64, not float32$|numbers of 16 or 32 bits \("):
        regard.load(folder, "cpu")


@pytest.mark.parametrize("keep_unknown", [False, True])
def test_other_groups_are_refused_with_what_helps(tmp_path, keep_unknown):
    folder = write_elmo(tmp_path)
    with h5py.File(folder / "weights.hdf5", "a") as file:
        file.create_group("more")
    with pytest.raises(BadInput, match=r"unknown: more; .*delete them from a copy") as error:
        regard.load(folder, "cpu", keep_unknown=keep_unknown)
    assert "keep_unknown" not in str(error.value)
    with h5py.File(folder / "weights.hdf5", "a") as file:
        del file["more"]
    assert regard.load(folder, "cpu")


@pytest.mark.parametrize("where", ["", "CNN/"])
def test_many_groups_are_counted_and_not_listed(tmp_path, monkeypatch, where):
    folder = write_elmo(tmp_path)
    with h5py.File(folder / "weights.hdf5", "a") as file:
        for number in range(1_100):
            file.create_group(f"{where}g{number}")
    monkeypatch.setattr(WeightMap, "read", None)
    with pytest.raises(
        BadInput, match=r"(its root|CNN) has 1,1\d\d members, but the model has only"
    ):
        regard.load(folder, "cpu")


@pytest.mark.parametrize("where", ["nest", "CNN/nest", "CNN_proj/W_proj/nest"])
def test_nested_groups_are_not_walked(tmp_path, where):
    folder = write_elmo(tmp_path)
    with h5py.File(folder / "weights.hdf5", "a") as file:
        if where.startswith("CNN_proj/W"):
            del file["CNN_proj/W_proj"]
        inner = file.create_group(where)
        for _ in range(3_000):
            inner = inner.create_group("g")
    start = time.perf_counter()
    with pytest.raises(BadInput, match=f"unknown: {where}|W_proj holds no floating-point"):
        regard.load(folder, "cpu")
    assert time.perf_counter() - start < 5


def test_a_group_inside_itself_is_not_walked(tmp_path):
    folder = write_elmo(tmp_path)
    with h5py.File(folder / "weights.hdf5", "a") as file:
        file["CNN/again"] = file["/"]
    with pytest.raises(BadInput, match="unknown: CNN/again"):
        regard.load(folder, "cpu")


def test_names_that_are_not_asked_for_are_listed_without_elements(tmp_path):
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        file["a/b"], file["a/c"], file["d/e"] = np.ones((2, 3), "f2"), np.ones(4), np.ones(5)
    described = describe_hdf5(tmp_path / "a.hdf5", ["a/b", "f/g"])
    assert {name: tuple(tensor.shape) for name, tensor in described.items()} == {
        "a/b": (2, 3),
        "a/c": (0,),
        "d": (0,),
    }
    assert all(tensor.device.type == "meta" for tensor in described.values())
    tensors = read_hdf5(tmp_path / "a.hdf5", ["a/b", "f/g"])
    assert tensors.keys() == {"a/b"}
    assert torch.equal(tensors["a/b"], torch.ones(2, 3, dtype=torch.float16))
