"""Tokens in the order of time, and back."""

import torch
from hypothesis import given

from naive import LENGTHS, spans
from regard.core.layout import Layout


def in_order(lengths: list[int], backward: bool) -> list[int]:
    """Indices of packed tokens by time, the longest rows first."""
    rows = sorted(spans(lengths), key=lambda span: span[0] - span[1])
    longest = max(lengths)
    return [
        end - 1 - time if backward else first + time
        for time in range(longest)
        for first, end in rows
        if time < end - first
    ]


@given(LENGTHS)
def test_the_order_of_time_is_that_of_a_loop(lengths):
    time_major = Layout.ragged(lengths).time_major
    assert time_major.forward_T.tolist() == in_order(lengths, backward=False)
    assert time_major.backward_T.tolist() == in_order(lengths, backward=True)
    assert sum(time_major.alive) == sum(lengths)
    assert list(time_major.alive) == sorted(time_major.alive, reverse=True)
    assert [lengths[row] for row in time_major.order_B] == sorted(lengths, reverse=True)


@given(LENGTHS)
def test_there_and_back(lengths):
    layout = Layout.ragged(lengths)
    x_TD = torch.randn(layout.tokens, 3, requires_grad=True)
    for backward in (False, True):
        taken_TD = layout.time_major.from_packed(x_TD, backward=backward)
        assert torch.equal(layout.time_major.to_packed(taken_TD, backward=backward), x_TD)


def test_rectangles_with_dead_places():
    layout = Layout.rectangle(2, 3, lengths_B=torch.tensor([1, 3]))
    assert layout.time_major.forward_T.tolist() == [3, 0, 4, 5]
    assert layout.time_major.to_packed(torch.ones(4, 1)).flatten().tolist() == [1, 0, 0, 1, 1, 1]


def test_the_first_rows_of_a_rectangle():
    layout = Layout.rectangle(3, 4, lengths_B=torch.tensor([4, 2, 1]), padded=True)
    first = layout.first(2)
    assert (first.rows, first.longest, first.tokens) == (2, 4, 8)
    assert torch.equal(first.real_BL, layout.real_BL[:2])


def test_rows_that_stand_further_on():
    later = Layout.rectangle(2, 2, start=3).later(4)
    assert later.start == 7 and later.positions_T.tolist() == [7, 8, 7, 8]
