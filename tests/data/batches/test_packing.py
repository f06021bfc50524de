"""Batches hold every example once, never more than the budget, and little less."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from regard.core.batch import BatchLimits
from regard.core.errors import BadInput
from regard.data.batches.packing import cut_batches, inference_batches, training_batches

LENGTHS = arrays(
    np.int64, st.tuples(st.integers(0, 60), st.integers(1, 3)), elements=st.integers(0, 20)
)


@st.composite
def budgets(draw) -> BatchLimits:
    longest = draw(st.integers(20, 30))
    return BatchLimits(longest + draw(st.integers(0, 60)), draw(st.integers(1, 9)), longest)


def key(lengths: np.ndarray, i: int) -> tuple:
    return (-lengths[i].max(), *(-lengths[i]), i)


@given(LENGTHS, budgets())
def test_every_example_once_within_the_budget_longest_first(lengths, limits):
    batches = training_batches(lengths, limits)
    flat = [i for batch in batches for i in batch]
    assert sorted(flat) == list(range(len(lengths)))
    assert flat == sorted(flat, key=lambda i: key(lengths, i))
    for batch in batches:
        assert 1 <= len(batch) <= limits.rows
        assert (lengths[batch].sum(axis=0) <= limits.tokens).all()


@given(LENGTHS, budgets())
def test_a_batch_closes_only_when_the_next_example_does_not_fit(lengths, limits):
    batches = training_batches(lengths, limits)
    for batch, following in pairwise(batches):
        more = lengths[[*batch, following[0]]].sum(axis=0)
        assert len(batch) == limits.rows or (more > limits.tokens).any()


def one_by_one(lengths: np.ndarray, limits: BatchLimits, mixed: bool) -> list[list[int]]:
    """The same batches, with one row added after the other."""
    longest_first = sorted(range(len(lengths)), key=lambda i: key(lengths, i))
    batches: list[list[int]] = []
    for row in range(len(lengths)) if mixed else longest_first:
        more = [*batches[-1], row] if batches else []
        if more and len(more) <= limits.rows and lengths[more].sum(axis=0).max() <= limits.tokens:
            batches[-1] = more
        else:
            batches.append([row])
    return [sorted(batch, key=lambda i: key(lengths, i)) for batch in batches]


@given(LENGTHS, budgets(), st.booleans())
def test_batches_are_those_of_adding_rows_one_by_one(lengths, limits, mixed):
    expected = one_by_one(lengths, limits, mixed)
    order, ends = cut_batches(lengths, limits, mixed=mixed)
    assert training_batches(lengths, limits, mixed=mixed) == expected
    assert order.tolist() == [row for batch in expected for row in batch]
    assert np.diff(ends, prepend=0).tolist() == [*map(len, expected)]


def test_one_number_for_each_example_will_do():
    lengths = np.array([3, 9, 4, 9])
    assert training_batches(lengths, BatchLimits(12, 9, 9)) == training_batches(
        lengths[:, None], BatchLimits(12, 9, 9)
    )
    assert training_batches(lengths, BatchLimits(12, 9, 9)) == [[1], [3], [2, 0]]


def test_both_sides_close_a_batch():
    lengths = np.array([[4, 1], [4, 1], [1, 4], [1, 4]])
    assert training_batches(lengths, BatchLimits(8, 9, 4)) == [[0, 1], [2, 3]]
    assert training_batches(lengths, BatchLimits(8, 1, 4)) == [[0], [1], [2], [3]]
    assert training_batches(lengths, BatchLimits(9, 9, 4)) == [[0, 1, 2], [3]]


def test_cut_refuses_what_in_order_takes_alone():
    lengths = np.array([3, 11, 2, 12])
    with pytest.raises(ValueError, match="12 tokens"):
        training_batches(lengths, BatchLimits(20, 9, 10))
    assert inference_batches(lengths, BatchLimits(20, 9, 10)) == [[3], [1], [0, 2]]
    assert inference_batches(lengths, BatchLimits(16, 9, 10), sort=False) == [[0, 1, 2], [3]]
    assert inference_batches(lengths, BatchLimits(11, 9, 10), sort=False) == [[0], [1], [2], [3]]


@given(LENGTHS, st.integers(1, 30), st.integers(1, 9))
def test_inference_loses_nothing(lengths, tokens, rows):
    limits = BatchLimits(tokens, rows, tokens)
    batches = inference_batches(lengths, limits)
    assert sorted(i for batch in batches for i in batch) == list(range(len(lengths)))
    for batch in batches:
        alone = len(batch) == 1 and lengths[batch].max() > tokens
        assert alone or (len(batch) <= rows and (lengths[batch].sum(axis=0) <= tokens).all())


@pytest.mark.parametrize("limits", [(0, 1, 1), (8, 0, 1), (8, 1, 0), (8, 1, 9)])
def test_an_impossible_budget_is_refused(limits):
    with pytest.raises(BadInput, match="BatchLimits"):
        BatchLimits(*limits)


@pytest.mark.parametrize("tokens", [1_024, 4_096, 16_384])
def test_batches_of_sentences_are_nearly_full(tokens):
    """The figures in the docstring of `training_batches`."""
    random = np.random.default_rng(1)
    source = np.exp(random.normal(3.15, 0.62, 65_536))
    target = source * np.exp(random.normal(0.05, 0.18, len(source)))
    lengths = np.stack([source + 1, target + 2], axis=1).clip(1, 252).astype(int)
    batches = training_batches(lengths, BatchLimits(tokens, tokens, 252))[:-1]
    fill = np.array([lengths[batch].sum(axis=0) for batch in batches]) / tokens
    assert fill.max(axis=1).mean() > 0.97
    assert fill.mean() > 0.90
