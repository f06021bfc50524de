"""Stacks whose layers differ in their heads: built, counted, written, and refused by name."""

import json

import pytest
import torch

import regard
from regard.core.batch import TokenRow, pack_rows
from regard.core.errors import BadInput
from regard.generation.cpp import obstacle
from regard.models.facts import change
from regard.models.folders.loaded_model import LoadedModel
from regard.models.paper import count_parameters
from regard.models.papers import albert, bert, llama, t5, transformer

SMALL = change(bert.TINY, vocab=20, width=8, inner=12, longest=10, depth=3, heads=4, init_std=0.3)
FEWER = change(SMALL, heads_by_layer=(3, 0, 4))
PAIR = {"vocab": 20, "width": 8, "inner": 12, "depth": 2, "heads": 2}
BATCH = pack_rows([TokenRow([3, 4, 5, 6], [0, 0, 1, 1]), TokenRow([7], [0])])


def translator(**counts):
    facts = change(transformer.BASE, **PAIR)
    return change(facts, **{f"target.{name}": value for name, value in counts.items()})


def test_each_layer_has_its_heads_in_the_size_of_the_whole_model():
    shapes = {name: tuple(value.shape) for name, value in FEWER.build().state_dict().items()}
    rows = [shapes[f"trunk.blocks.{layer}.attention.qkv.weight"] for layer in range(3)]
    columns = [shapes[f"trunk.blocks.{layer}.attention.o.weight"] for layer in range(3)]
    assert rows == [(3 * 3 * 2, 8), (0, 8), (3 * 4 * 2, 8)]
    assert columns == [(8, 6), (8, 0), (8, 8)]
    assert FEWER.attention_sites[0].heads == (3, 0, 4)
    per_head = 3 * 2 * (8 + 1) + 2 * 8  # rows of qkv with their bias, columns of o
    assert count_parameters(SMALL.build()) - count_parameters(FEWER.build()) == 5 * per_head


def test_a_layer_without_heads_adds_its_output_bias():
    model = FEWER.build().eval()
    attention = model.trunk.blocks[1].attention
    torch.nn.init.normal_(attention.o.bias)
    x_TD = torch.randn(5, 8)
    expected = attention.o.bias.expand(5, 8)
    torch.testing.assert_close(attention(x_TD, BATCH.layout), expected, rtol=0, atol=0)
    model(BATCH).encoded.states_TD.sum().backward()  # training runs too


def test_all_heads_by_layer_are_the_whole_model():
    torch.manual_seed(1)
    whole = SMALL.build().eval()
    listed = change(SMALL, heads_by_layer=(4, 4, 4)).build().eval()
    listed.load_state_dict(whole.state_dict())
    states = [model(BATCH).encoded.states_TD for model in (whole, listed)]
    torch.testing.assert_close(*states, rtol=0, atol=0)


def test_operations_are_those_of_the_heads_that_are_there():
    stack, half = SMALL.trunk.stack, change(SMALL, heads_by_layer=(2, 2, 2)).trunk.stack
    whole, fewer = stack.macs(), half.macs()
    assert fewer.own_pair * 2 == whole.own_pair
    assert whole.token - fewer.token == 3 * 2 * 4 * 2 * 8  # layers, heads, q k v o, size, width
    source = transformer.BASE.source.stack
    cross = [translator(**counts).target.stack.macs(source) for counts in CROSS]
    assert cross[0].cross_pair == 4 * cross[1].cross_pair
    assert cross[0].source_token == 4 * cross[1].source_token
    assert cross[0].own_pair == cross[1].own_pair


CROSS = ({}, {"cross_heads_by_layer": (1, 0)})


def test_a_folder_is_read_again(tmp_path):
    regard.Model(LoadedModel(bert.PAPER, FEWER, FEWER.build().eval())).save(tmp_path / "fewer")
    again = regard.load(tmp_path / "fewer", "cpu")
    assert again.facts == FEWER
    facts = json.loads((tmp_path / "fewer" / "config.json").read_text())["facts"]
    assert facts["trunk"]["stack"]["heads_by_layer"] == [3, 0, 4]
    with pytest.raises(BadInput, match=r"heads_by_layer is \(3, 0, 4\), not \(\)"):
        again.save(tmp_path / "hf", "hf")
    assert not (tmp_path / "hf").exists()


@pytest.mark.parametrize(
    ("facts", "changes", "reason"),
    [
        (SMALL, {"heads_by_layer": (4, 4)}, "3 numbers of at most 4"),
        (SMALL, {"heads_by_layer": (4, 4, 5)}, "3 numbers of at most 4"),
        (SMALL, {"heads_by_layer": (4, 4, -1)}, "at least 0"),
        (SMALL, {"cross_heads_by_layer": (4, 4, 4)}, "no cross-attention"),
        (albert.BASE, {"heads_by_layer": (1,) * 12}, "share weights"),
        (
            change(llama.PAPER.sizes[llama.PAPER.default_size], depth=1, heads=4, kv_heads=2),
            {"heads_by_layer": (2,)},
            "share keys",
        ),
        (change(t5.PAPER.sizes["small"], depth=1), {"source.heads_by_layer": (2,)}, "bias"),
    ],
)
def test_what_layers_cannot_have_is_refused(facts, changes, reason):
    with pytest.raises(BadInput, match=reason):
        change(facts, **changes)


@pytest.mark.parametrize(
    ("counts", "reason"),
    [
        ({"heads_by_layer": (2, 1)}, "different numbers of heads"),
        ({"cross_heads_by_layer": (1, 2)}, "different numbers of heads"),
        ({"cross_heads_by_layer": (0, 2)}, "heads: none"),
    ],
)
def test_the_cpp_decoder_refuses_layers_that_differ(counts, reason):
    assert reason in str(obstacle(translator(**counts).build()))
    alike = {"heads_by_layer": (1, 1), "cross_heads_by_layer": (1, 1)}
    assert "heads" not in str(obstacle(translator(**alike).build()))
