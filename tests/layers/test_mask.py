"""Every mask against a loop over pairs of positions."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from naive import LENGTHS, PAIRS
from regard.core.layout import Layout
from regard.layers.attend import PermutationMask, WindowMask, causal, full

LIMIT = st.none() | st.integers(-2, 4)


def compared(mask, queries: Layout, keys: Layout, sees) -> None:
    """``sees(row, i, j)`` of every real query and key."""
    allowed_BLS = mask(queries, keys)
    assert allowed_BLS.shape == (queries.rows, queries.longest, keys.longest)
    assert allowed_BLS.dtype == torch.bool
    for row in range(queries.rows):
        for i in range(int(queries.lengths_B[row])):
            for j in range(int(keys.lengths_B[row])):
                assert allowed_BLS[row, i, j] == sees(row, i, j)


def within(left: int | None, right: int | None, query: int, key: int) -> bool:
    return (left is None or key >= query - left) and (right is None or key <= query + right)


@given(PAIRS)
def test_everyone_sees_everything(pairs):
    queries, keys = (Layout.ragged(lengths) for lengths in zip(*pairs, strict=True))
    compared(full, queries, keys, lambda row, i, j: True)


@given(LENGTHS)
def test_causal_sees_itself_and_what_came_before(lengths):
    layout = Layout.ragged(lengths)
    compared(causal, layout, layout, lambda row, i, j: j <= i)


@given(PAIRS, LIMIT, LIMIT)
def test_a_window_reaches_as_far_as_it_says(pairs, left, right):
    queries, keys = (Layout.ragged(lengths) for lengths in zip(*pairs, strict=True))
    window = WindowMask(left, right)
    compared(window, queries, keys, lambda row, i, j: within(left, right, i, j))


@given(st.integers(0, 5), st.integers(0, 3), LIMIT, LIMIT)
def test_with_a_memory_positions_count_and_not_places(past, new, left, right):
    queries, keys = Layout.rectangle(2, new, start=past), Layout.rectangle(2, past + new)
    window = WindowMask(left, right)
    compared(window, queries, keys, lambda row, i, j: within(left, right, past + i, j))
    compared(causal, queries, keys, lambda row, i, j: j <= past + i)


@given(LENGTHS, st.booleans(), st.randoms(use_true_random=False))
def test_permuted_sees_what_was_drawn_earlier(lengths, itself, random):
    orders = [random.sample(range(length), length) for length in lengths]
    flat = torch.tensor([order for row in orders for order in row], dtype=torch.int64)
    layout = replace(Layout.ragged(lengths), orders_T=flat)

    def sees(row: int, i: int, j: int) -> bool:
        query, key = orders[row][i], orders[row][j]
        return key <= query if itself else key < query

    compared(PermutationMask(itself), layout, layout, sees)


def test_permuted_needs_orders():
    layout = Layout.ragged([2])
    with pytest.raises(ValueError, match="orders"):
        PermutationMask(itself=True)(layout, layout)


def test_sights_are_values():
    assert WindowMask(None, 0) == causal != full == WindowMask()
    assert len({PermutationMask(True), PermutationMask(True), PermutationMask(False), causal}) == 3
