"""Modules whose weights are loaded or only counted are built without drawing values."""

import signal

import pytest
import torch
from torch import nn

from paper_matrix import forms, tiny
from regard.core.device import uninitialised
from regard.models.papers import LINEAGE
from regard.weights.files import weights_of


@pytest.mark.thinned
@pytest.mark.parametrize("paper", LINEAGE, ids=lambda paper: paper.key)
def test_shapes_and_types_are_those_of_the_model(paper):
    facts = min(paper.sizes.values(), key=paper.parameters)
    with torch.device("meta"):
        drawn = facts.build()
    with uninitialised("meta"):
        bare = facts.build()
    assert _shapes(bare) == _shapes(drawn)
    assert {tensor.device.type for tensor in weights_of(bare).values()} == {"meta"}


def _shapes(model: nn.Module) -> dict[str, tuple[torch.Size, torch.dtype]]:
    return {name: (tensor.shape, tensor.dtype) for name, tensor in weights_of(model).items()}


@pytest.mark.parametrize("module", [nn.Linear, nn.Embedding, nn.GRU])
def test_no_value_is_drawn(module):
    before = torch.get_rng_state()
    with uninitialised("cpu"):
        module(3, 4)
    assert torch.equal(torch.get_rng_state(), before)
    module(3, 4)
    assert not torch.equal(torch.get_rng_state(), before)


def test_constants_are_set():
    with uninitialised("cpu"):
        norm = nn.LayerNorm(3)
    assert norm.weight.tolist() == [1, 1, 1] and norm.bias.tolist() == [0, 0, 0]


@pytest.mark.parametrize("size", forms(), ids=str)
def test_what_lay_in_memory_does_not_matter(size, monkeypatch):
    """Functions of torch that draw again until all values are within bounds would never end."""
    empty = torch.empty
    monkeypatch.setattr(torch, "empty", lambda *args, **kwargs: empty(*args, **kwargs).fill_(99))
    monkeypatch.setattr(torch, "empty_like", lambda x, **kwargs: torch.full_like(x, 99))
    before = torch.get_rng_state()
    signal.signal(signal.SIGALRM, lambda *_: pytest.fail("building does not end"))
    signal.alarm(20)
    try:
        with uninitialised("cpu"):
            tiny(size).build()
    finally:
        signal.alarm(0)
    assert torch.equal(torch.get_rng_state(), before)
