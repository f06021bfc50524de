"""Factorization orders: as many tokens are predicted, in spans, after all others in the order."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.core.batch import TokenRow
from regard.objectives.permutation_lm import CONTEXT, FactorizationSampler

VOCAB, SPECIAL = 40, 4
special = np.arange(VOCAB) < SPECIAL
word_starts = np.arange(VOCAB) % 3 != 0


def sampler(**options):
    return FactorizationSampler(special, word_starts, **options)


def rows(count, length, seed=0):
    draw = np.random.default_rng(seed)
    tokens = draw.integers(SPECIAL, VOCAB, (count, length))
    tokens[:, -2:] = [0, 1]  # a separator and the class token
    return [TokenRow(row, np.zeros(length, np.int32)) for row in tokens]


@given(st.integers(3, 60), st.integers(2, 8), st.integers(1, 6))
def test_predicted_tokens_are_no_special_ones_and_as_many_as_planned(length, one_in, words):
    (row,) = rows(1, length, seed=length)
    made = sampler(one_in=one_in, words=words)
    ((orders, predicted),) = made.draw([row], np.array([3]), (1, 0))
    assert len(predicted) == min(max(1, length // one_in), length - 2)
    assert not special[row.tokens[predicted]].any() and (np.diff(predicted) > 0).all()
    later = np.isin(np.arange(length), predicted) | special[row.tokens]
    assert (orders[~later] == CONTEXT).all()
    assert (orders[later] > CONTEXT).all() and len({*orders[later]}) == later.sum()


def test_orders_follow_from_the_key_and_the_number_of_the_row():
    some, indices = rows(6, 30), np.arange(6)
    first = sampler().draw(some, indices, (1, 0))
    again = sampler().draw(some[::-1], indices[::-1], (1, 0))[::-1]
    for one, other in zip(first, again, strict=True):
        assert all(map(np.array_equal, one, other))
    for key in ((2, 0), (1, 1)):
        others = sampler().draw(some, indices, key)
        assert any(
            not np.array_equal(a.orders, b.orders) for a, b in zip(first, others, strict=True)
        )


def test_orders_are_uniform_over_predicted_tokens():
    some = rows(4_000, 12)
    drawn = sampler(one_in=4, words=1).draw(some, np.arange(len(some)), (0, 0))
    first_is_earlier = [orders[at[0]] < orders[at[1]] for orders, at in drawn]
    assert np.mean(first_is_earlier) == pytest.approx(0.5, abs=0.03)


def test_spans_are_of_whole_words_with_the_lengths_of_the_paper():
    """Spans of n words with probability ∝ 1/n; single tokens fill up the rest."""
    everywhere = FactorizationSampler(special, np.ones(VOCAB, bool), one_in=6, words=5)
    some = rows(300, 400)
    lengths = []
    for _, at in everywhere.draw(some, np.arange(len(some)), (0, 0)):
        runs = np.split(at, np.flatnonzero(np.diff(at) > 1) + 1)
        lengths += [len(run) for run in runs]
    counts, expected = np.bincount(lengths, minlength=6)[2:6], 1 / np.arange(2, 6)
    assert np.abs(counts / counts.sum() - expected / expected.sum()).max() < 0.03
    cut = sampler(one_in=6, words=3)
    for row, (_, at) in zip(some[:50], cut.draw(some[:50], np.arange(50), (0, 0)), strict=True):
        begins = word_starts[row.tokens[at]] | np.isin(at - 1, at)
        assert begins.mean() > 0.9  # but for single tokens, drawn to fill up


def test_predicted_tokens_are_spread_over_the_row():
    some = rows(400, 120)
    counts = np.zeros(120)
    every = FactorizationSampler(special, np.ones(VOCAB, bool))
    for _, at in every.draw(some, np.arange(len(some)), (0, 0)):
        counts[at] += 1
    thirds = counts.reshape(3, 40).sum(1) / counts.sum()
    assert thirds.min() > 0.3


@given(st.integers(3, 60), st.integers(6, 30), st.integers(2, 6))
def test_each_chunk_has_an_order_of_its_own_after_those_before_it(length, chunk, one_in):
    """What each token sees is what the code of the paper lets it see, which masks half by half."""
    (row,) = rows(1, length, seed=length)
    made = sampler(one_in=one_in, chunk=chunk)
    ((orders, predicted),) = made.draw([row], np.array([3]), (1, 0))
    assert 1 <= len(predicted) <= max(1, length // one_in)
    at = np.arange(length)
    part, is_context = at // chunk, ~(np.isin(at, predicted) | special[row.tokens])
    for number in range(part[-1] + 1):
        inside = part == number
        most = int((inside & ~special[row.tokens]).sum())
        expected = max(int(number == 0), inside.sum() // one_in)
        assert inside[predicted].sum() == min(expected, most)
    for target in at:
        seen = orders < orders[target]
        same = part == part[target]
        assert seen[part < part[target]].all() and not seen[part > part[target]].any()
        if not is_context[target]:
            assert seen[same & is_context].all() and not seen[target]
    for number in range(part[-1] + 1):
        inside = part == number
        assert len({*orders[inside & is_context]}) <= 1  # they see each other
        ordered = orders[inside & ~is_context]
        assert len({*ordered}) == len(ordered)


def test_chunks_do_not_share_their_orders():
    some = rows(40, 24)
    drawn = sampler(one_in=2, words=1, chunk=12).draw(some, np.arange(len(some)), (0, 0))
    halves = [(at[at < 12], at[at >= 12] - 12) for _, at in drawn]
    assert sum(not np.array_equal(*pair) for pair in halves) > 30
