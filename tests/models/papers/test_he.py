"""The highway BiLSTM of He et al. (2017): against a loop over words, masks, sizes, features."""

import pytest
import torch
from torch.testing import assert_close

from closeness import VALUES
from regard.core.batch import TokenRow, pack_rows
from regard.core.errors import BadInput
from regard.models.facts import change
from regard.models.features import Features
from regard.models.papers import elmo, he
from regard.models.papers.he import HighwayLSTM

SMALL = change(he.BASE, vocab=11, width=6, embedding=9, depth=3, indicator=4)
ROWS = [TokenRow([1, 2, 3, 4], [0, 1, 0, 0]), TokenRow([5], [1]), TokenRow([6, 7], [0, 0])]


def one_row(layer: HighwayLSTM, x_LD: torch.Tensor) -> torch.Tensor:
    """The equations of the paper, word by word."""
    width = layer.width
    of_inputs, of_states = layer.inputs.weight.split(width), layer.states.split(width)
    biases = layer.inputs.bias.split(width)
    h = c = torch.zeros(width)
    states = {}
    order = range(len(x_LD))
    for place in reversed(order) if layer.backward else order:
        x = x_LD[place]
        i, f, o, r, g = (
            of_inputs[n] @ x + of_states[n] @ h + biases[n] for n in range(len(of_states))
        )
        c = i.sigmoid() * g.tanh() + f.sigmoid() * c
        straight = of_inputs[5] @ x + biases[5]
        h = r.sigmoid() * o.sigmoid() * c.tanh() + (1 - r.sigmoid()) * straight
        states[place] = h
    return torch.stack([states[place] for place in order])


@torch.no_grad()
def test_states_follow_the_equations_in_alternate_directions():
    torch.manual_seed(0)
    module = SMALL.build().eval()
    batch = pack_rows(ROWS)
    states = batch.layout.split(module.trunk(batch.tokens_T, batch.layout).states_TD)
    embed = module.trunk.embed
    assert [layer.backward for layer in module.trunk.blocks] == [False, True, False]
    for row, states_LD in zip(ROWS, states, strict=True):
        words, marks = embed.token.weight[list(row.tokens)], embed.indicator.weight
        x_LD = torch.cat([words, marks[list(row.segments)]], dim=1)
        for layer in module.trunk.blocks:
            x_LD = one_row(layer, x_LD)
        assert_close(states_LD, x_LD, **VALUES)


@torch.no_grad()
def test_the_mark_of_the_predicate_changes_states():
    module = SMALL.build().eval()
    marked, unmarked = (pack_rows([TokenRow([1, 2, 3], marks)]) for marks in ([0, 1, 0], [0, 0, 0]))
    first, second = (module.trunk(one.tokens_T, one.layout).states_TD for one in (marked, unmarked))
    assert (first - second).abs().max() > 1e-4


def test_all_words_of_a_row_share_a_dropout_mask():
    torch.manual_seed(0)
    layer = HighwayLSTM(3, 40, 0.5)
    batch = pack_rows([TokenRow([0] * 5, [0] * 5), TokenRow([0] * 3, [0] * 3)])
    states = batch.layout.split(layer(torch.randn(8, 3), batch.layout))
    dropped = [states_LD == 0 for states_LD in states]
    for zeros_LD in dropped:
        assert (zeros_LD == zeros_LD[0]).all() and 5 < int(zeros_LD[0].sum()) < 35
    assert (dropped[0][0] != dropped[1][0]).any()


def test_gradients_reach_all_weights():
    module = SMALL.build()
    for rows in (ROWS, [TokenRow([], [])]):
        module.zero_grad()
        batch = pack_rows(rows)
        module.trunk(batch.tokens_T, batch.layout).states_TD.sum().backward()
        layers = [*module.trunk.blocks.parameters()]
        assert all(weight.grad is not None for weight in layers)
        assert all(bool(weight.grad.any()) for weight in layers) == (rows is ROWS)


def test_the_parameters_and_products_of_the_paper():
    layers = [6 * 300 * (inputs + 1) + 5 * 300 * 300 for inputs in (200, *[300] * 7)]
    assert he.PAPER.parameters(he.BASE) == 400_000 * 100 + 2 * 100 + sum(layers)
    products = sum(layers) - 8 * 6 * 300  # all weights but the biases
    assert he.BASE.trunk.macs().token == products
    layer = HighwayLSTM(20, 20, 0.0)
    for gate_DD in (*layer.inputs.weight.split(20), *layer.states.split(20)):
        assert_close(gate_DD @ gate_DD.T, torch.eye(20), **VALUES)


def test_features_stand_beside_words_and_marks():
    small = change(elmo.SMALL, width=4, cells=8, filters=((1, 4),), highways=1, longest=6)
    trunk = change(SMALL, embedding=9 + 8).trunk
    facts = change(SMALL, trunk=type(trunk)(trunk.embed, trunk.stack, Features(small.trunk)))
    facts = change(facts, **{"trunk.stack.embedding": 17})
    module = facts.build().eval()
    tokens = torch.cat([torch.arange(3)[:, None], torch.randint(0, 261, (3, 6))], dim=1)
    layout = pack_rows([TokenRow([0] * 3, [0, 1, 0])]).layout
    assert module.trunk(tokens, layout).states_TD.shape == (3, 6)


def test_impossible_sizes_are_refused():
    with pytest.raises(BadInput, match="indicator must be at least 1"):
        change(SMALL, indicator=0)
    with pytest.raises(BadInput, match="segments must be at least 2"):
        change(SMALL, segments=1)
    with pytest.raises(BadInput, match="depth must be at least 1"):
        change(SMALL, depth=0)
    with pytest.raises(BadInput, match="embedding is 4: the 4 dimensions of indicator"):
        change(SMALL, embedding=4).build()
