"""Pooling is a softmax-weighted mean of the states, whatever the score and the query."""

import pytest
import torch

from regard.core.layout import Layout
from regard.core.tape import Tape
from regard.layers.attention import EncoderOutput
from regard.layers.recurrent.rnn_attention import SCORES
from regard.models.pools import QUERIES, AttentionPool

LENGTHS = [4, 1, 0, 6]
SIZE = 6


def source(lengths=LENGTHS, size=SIZE):
    return EncoderOutput(torch.randn(sum(lengths), size), Layout.ragged(lengths))


def pool(score="additive", query="learned"):
    return AttentionPool(score, query, inner=5, positions=4).build(SIZE)


def weights_of(one, given):
    tape = Tape("weights", "scores")
    pooled = one(given, tape=tape)
    return pooled, tape.records["weights"][:, 0, 0], tape.records["scores"][:, 0, 0]


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("score", SCORES)
def test_it_is_the_weighted_mean_of_the_states(score, query):
    one, given = pool(score, query), source()
    fast = one(given)
    pooled_BD, _, scores_BS = weights_of(one, given)
    torch.testing.assert_close(fast, pooled_BD)
    for row, states in enumerate(given.layout.split(given.states_TD)):
        if not len(states):
            continue
        exponents = torch.exp(scores_BS[row, : len(states)])
        naive = (exponents[:, None] * states).sum(0) / exponents.sum()
        torch.testing.assert_close(pooled_BD[row], naive)


def test_additive_attention_by_hand():
    """v·tanh(W h_i + U q), then softmax, as the paper writes it."""
    one, given = pool(), source([3])
    score = one.attention.score
    hidden = torch.tanh(given.states_TD @ score.key[0] + one.learned @ score.query[0])
    weights = torch.softmax(hidden @ score.v[0], 0)
    torch.testing.assert_close(one(given)[0], weights @ given.states_TD)


@pytest.mark.parametrize("score", ["dot", "scaled-dot", "bilinear"])
def test_a_query_of_zeros_is_the_mean(score):
    given = source()
    pooled = pool(score, "zeros")(given)
    means = [
        s.mean(0) if len(s) else torch.zeros(SIZE) for s in given.layout.split(given.states_TD)
    ]
    torch.testing.assert_close(pooled, torch.stack(means))


def test_a_query_may_be_the_mean_of_the_states():
    given = source([3])
    mean = given.states_TD.mean(0)
    weights = torch.softmax(given.states_TD @ mean, 0)
    torch.testing.assert_close(pool("dot", "mean")(given)[0], weights @ given.states_TD)


@pytest.mark.parametrize("score", [name for name in SCORES if name != "location"])
def test_weights_sum_to_one_and_sit_on_real_words(score):
    _, weights_BS, _ = weights_of(pool(score), source())
    torch.testing.assert_close(weights_BS.sum(1), torch.tensor([1.0, 1.0, 0.0, 1.0]))
    for row, length in enumerate(LENGTHS):
        assert (weights_BS[row, length:] == 0).all()


@pytest.mark.parametrize("score", ["additive", "scaled-dot"])
def test_packed_is_padded(score):
    one, given = pool(score), source()
    padded_BSD = given.layout.pad(given.states_TD)
    even = Layout.rectangle(4, 6, lengths_B=given.layout.lengths_B)
    other = one(EncoderOutput(padded_BSD.flatten(0, 1), even))
    torch.testing.assert_close(one(given), other)


@pytest.mark.parametrize("score", ["additive", "dot"])
def test_gradients_reach_query_and_states(score):
    one, given = pool(score), source()
    states_TD = given.states_TD.requires_grad_()
    one(given)[:, :2].square().sum().backward()
    assert states_TD.grad.isfinite().all() and (states_TD.grad != 0).any()
    assert (one.learned.grad != 0).any()


def test_a_row_without_tokens_is_zeros():
    pooled = pool()(source([0, 2]))
    assert (pooled[0] == 0).all() and pooled.isfinite().all()
    assert (pool()(source([0])) == 0).all()
