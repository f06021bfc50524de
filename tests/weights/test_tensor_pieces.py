"""Tensors in pieces of several files."""

import json
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from regard.core.errors import BadInput
from regard.weights.tensor_pieces import TensorPieces, write_one_by_one


def write_pieces(folder, tensor, cuts):
    """Files with the rows between cuts, in the manner of torch.distributed.checkpoint."""
    bounds = sorted({0, len(tensor), *cuts})
    paths = []
    for number, (begin, end) in enumerate(pairwise(bounds)):
        paths.append(folder / f"shard-{number}.safetensors")
        places = {"model/x": {"saved_offsets": [begin, 0]}}
        pieces = {"model/x": tensor[begin:end].contiguous()}
        save_file(pieces, paths[-1], {"DCP_SHARDING_INFO": json.dumps(places)})
    return paths


@given(
    rows=st.integers(1, 9),
    cuts=st.lists(st.integers(0, 9), max_size=3),
    first=st.integers(0, 8),
    count=st.integers(0, 9),
)
def test_any_part_of_a_divided_tensor_can_be_read(tmp_path_factory, rows, cuts, first, count):
    tensor = torch.arange(rows * 3.0).view(rows, 3)
    folder = tmp_path_factory.mktemp("pieces")
    pieces = TensorPieces(
        write_pieces(folder, tensor, [cut for cut in cuts if cut < rows]), "model/"
    )
    assert [*pieces] == ["x"] and pieces.shape("x") == (rows, 3)
    assert torch.equal(pieces["x"], tensor)
    first = min(first, rows)
    count = min(count, rows - first)
    assert torch.equal(pieces.part("x", (first, 1), (count, 2)), tensor[first : first + count, 1:])


def test_a_missing_piece_is_named(tmp_path):
    paths = write_pieces(tmp_path, torch.ones(4, 2), [1, 2])
    with pytest.raises(BadInput, match=r"x is incomplete in shard-0.safetensors, shard-2"):
        TensorPieces([paths[0], paths[2]], "model/")["x"]


def test_tensors_are_written_one_by_one(tmp_path):
    tensors = {
        "a": torch.randn(3, 2),
        "b": torch.tensor(5),
        "c": torch.randn(4).bfloat16(),
        "d": torch.zeros(0, 2),
    }
    write_one_by_one(tmp_path / "x.safetensors", tensors, like=tensors)
    stored = load_file(tmp_path / "x.safetensors")
    assert stored.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert stored[name].dtype == tensor.dtype and torch.equal(stored[name], tensor)
