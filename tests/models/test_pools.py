"""Pools: one vector for each row of a ragged batch, as a plain loop over rows computes it."""

import pytest
import torch
from hypothesis import given
from torch import Tensor, nn

from naive import LENGTHS, SEED
from regard.core.batch import pack
from regard.core.layout import Layout
from regard.layers.attention import EncoderOutput
from regard.models.facts import change
from regard.models.papers import lin
from regard.models.pools import AnyPool, AttentionPool, ConcatPool, FirstToken, LastToken, MeanPool
from regard.models.trunk_with_heads import TrunkWithHeads

WIDTH = 6
POOLS: dict[str, AnyPool] = {
    "first": FirstToken(dense=False),
    "first, dense": FirstToken(dense=True),
    "last": LastToken(),
    "mean": MeanPool(),
    "concat": ConcatPool(),
    "attention": AttentionPool(),
    "attention, zeros": AttentionPool(score="scaled-dot", query="zeros"),
}
EVERY = pytest.mark.parametrize("facts", POOLS.values(), ids=POOLS)


def by_hand(facts: AnyPool, module: nn.Module, states_LD: Tensor) -> Tensor:
    """The vector of one row that has tokens."""
    match facts:
        case FirstToken(dense):
            first_D = states_LD[0]
            return torch.tanh(module.dense(first_D)) if dense else first_D
        case LastToken():
            return states_LD[-1]
        case ConcatPool():
            return torch.cat([states_LD[-1], states_LD.amax(0), states_LD.mean(0)])
        case MeanPool() | AttentionPool(query="zeros"):  # to a dot product with zeros all are equal
            return sum(states_LD) / len(states_LD)
        case AttentionPool():
            score = module.attention.score
            hidden = torch.tanh(states_LD @ score.key[0] + module.learned @ score.query[0])
            powers = (hidden @ score.v[0]).exp()
            pairs = zip(powers / powers.sum(), states_LD, strict=True)
            return sum(weight * state for weight, state in pairs)
    raise AssertionError(facts)


@pytest.mark.thinned
@EVERY
@given(LENGTHS, SEED)
@torch.no_grad()
def test_a_pool_is_a_loop_over_rows(facts, lengths, seed):
    torch.manual_seed(seed)
    module, layout = facts.build(WIDTH), Layout.ragged(lengths)
    states_TD = torch.randn(sum(lengths), WIDTH)
    pooled_BD = module(EncoderOutput(states_TD, layout))
    assert (
        pooled_BD.shape == (len(lengths), facts.output_width(WIDTH)) and pooled_BD.isfinite().all()
    )
    for states_LD, pooled_D in zip(layout.split(states_TD), pooled_BD, strict=True):
        if len(states_LD):
            torch.testing.assert_close(pooled_D, by_hand(facts, module, states_LD))
        elif not isinstance(facts, FirstToken):
            assert not pooled_D.any()


@EVERY
def test_rows_of_a_rectangle_end_where_their_lengths_say(facts):
    module, lengths = facts.build(WIDTH), [3, 0, 1]
    ragged, even = Layout.ragged(lengths), Layout.rectangle(3, 4, lengths_B=torch.tensor(lengths))
    states_TD = torch.randn(4, WIDTH)
    padded_BLD = torch.randn(3, 4, WIDTH)  # what stands behind the end of a row does not count
    for row, states_LD in enumerate(ragged.split(states_TD)):
        padded_BLD[row, : len(states_LD)] = states_LD
    found = module(EncoderOutput(padded_BLD.flatten(0, 1), even))
    wanted = module(EncoderOutput(states_TD, ragged))
    torch.testing.assert_close(found[[0, 2]], wanted[[0, 2]])


@EVERY
def test_gradients_reach_states_also_where_there_are_none(facts):
    module = facts.build(WIDTH)
    for lengths in ([2, 0, 3], [0, 0], []):
        states_TD = torch.randn(sum(lengths), WIDTH, requires_grad=True)
        pooled_BD = module(EncoderOutput(states_TD, Layout.ragged(lengths)))
        pooled_BD.square().sum().backward()
        assert states_TD.grad is not None and states_TD.grad.isfinite().all()
        assert bool(states_TD.grad.any()) == (sum(lengths) > 0)


@pytest.mark.parametrize("direction", ["forward", "backward", "both"])
@torch.no_grad()
def test_the_last_state_of_a_recurrent_trunk_is_where_it_ended(direction):
    """Of both directions: one ended at the last token, the other at the first."""
    facts = change(lin.LAST, vocab=20, width=WIDTH, embedding=5, depth=2, direction=direction)
    model, rows = facts.build().eval(), [[3, 4, 5], [6], [7, 8]]
    outputs = model(pack(rows))
    for states_LD, pooled_D in zip(
        pack(rows).layout.split(outputs.encoded.states_TD), outputs.pooled_BD, strict=True
    ):
        forward, backward = states_LD[-1, :WIDTH], states_LD[0, -WIDTH:]
        ends = {"forward": [forward], "backward": [backward], "both": [forward, backward]}
        torch.testing.assert_close(pooled_D, torch.cat(ends[direction]))


@EVERY
@torch.no_grad()
def test_a_model_pools_texts_without_tokens(facts):
    small = change(lin.LAPTOP, vocab=20, width=3, embedding=5, pool=facts)
    model = TrunkWithHeads(small.trunk, small.pool).build().eval()
    alone, together = model(pack([[]])).pooled_BD, model(pack([[3, 4], [], [5]])).pooled_BD
    assert alone.isfinite().all() and together.isfinite().all()
    torch.testing.assert_close(together[:1], model(pack([[3, 4]])).pooled_BD)
