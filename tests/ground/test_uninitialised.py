"""Modules whose weights are loaded or only counted are built without drawing values."""

import pytest
import torch
from torch import nn

from regard.ground.device import uninitialised
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
