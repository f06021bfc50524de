from dataclasses import fields, replace

import pytest
import torch
from hypothesis import given
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from naive import LENGTHS, spans
from regard.core.layout import Layout


@given(LENGTHS)
def test_ragged_rows_lie_end_to_end(lengths):
    layout = Layout.ragged(lengths)
    tokens = [(row, place) for row, length in enumerate(lengths) for place in range(length)]
    assert layout.rows == len(lengths)
    assert layout.longest == max(lengths)
    assert layout.tokens == sum(lengths)
    assert layout.lengths == tuple(lengths) and layout.lengths_B.tolist() == lengths
    assert layout.offsets.tolist() == [0, *(end for _, end in spans(lengths))]
    assert layout.offsets.dtype == layout.lengths_B.dtype == torch.int32  # as flash wants them
    assert layout.rows_T.tolist() == [row for row, _ in tokens]
    assert layout.positions_T.tolist() == [place for _, place in tokens]
    assert layout.slots_T.tolist() == [row * max(lengths) + place for row, place in tokens]
    assert not layout.even and not layout.full


@given(LENGTHS)
def test_real_places_are_those_that_hold_a_token(lengths):
    layout = Layout.ragged(lengths)
    expected = [[place < length for place in range(max(lengths))] for length in lengths]
    assert layout.real_BL.tolist() == expected


@given(LENGTHS)
def test_pad_lays_each_row_from_the_left_and_leaves_zeros(lengths):
    layout = Layout.ragged(lengths)
    x_TD = torch.randn(sum(lengths), 3)
    padded = layout.pad(x_TD)
    assert padded.shape == (len(lengths), max(lengths), 3)
    for row, (first, end) in enumerate(spans(lengths)):
        assert torch.equal(padded[row, : end - first], x_TD[first:end])
        assert (padded[row, end - first :] == 0).all()


@given(LENGTHS)
def test_pack_undoes_pad_and_drops_what_lay_in_the_gaps(lengths):
    layout = Layout.ragged(lengths)
    x_TD = torch.randn(sum(lengths), 2, 3)
    assert torch.equal(layout.pack(layout.pad(x_TD)), x_TD)
    y_BLD = torch.randn(len(lengths), max(lengths), 2, 3)
    kept = torch.where(layout.real_BL[:, :, None, None], y_BLD, 0)
    assert torch.equal(layout.pad(layout.pack(y_BLD)), kept)


@given(LENGTHS)
def test_pad_and_pack_are_each_the_others_backward(lengths):
    layout = Layout.ragged(lengths)
    x_TD = torch.randn(sum(lengths), 3, requires_grad=True)
    towards = torch.randn(len(lengths), max(lengths), 3)
    (gradient,) = torch.autograd.grad(layout.pad(x_TD), x_TD, towards)
    assert torch.equal(gradient, layout.pack(towards))
    y_BLD = torch.randn(len(lengths), max(lengths), 3, requires_grad=True)
    (gradient,) = torch.autograd.grad(layout.pack(y_BLD), y_BLD, x_TD.detach())
    assert torch.equal(gradient, layout.pad(x_TD.detach()))


def test_gradients_are_right_to_the_second_order():
    layout = Layout.ragged([2, 0, 3, 1])
    x_TD = torch.randn(6, 2, dtype=torch.float64, requires_grad=True)
    y_BLD = torch.randn(4, 3, 2, dtype=torch.float64, requires_grad=True)
    for move, start in ((layout.pad, x_TD), (layout.pack, y_BLD)):
        assert gradcheck(lambda x, move=move: move(x).sin(), start)
        assert gradgradcheck(lambda x, move=move: move(x).sin(), start)


def test_even_rows_are_padded_and_packed_without_a_copy():
    layout = Layout.rectangle(3, 4)
    x_TD = torch.randn(12, 5)
    padded = layout.pad(x_TD)
    assert padded.shape == (3, 4, 5)
    assert padded.data_ptr() == x_TD.data_ptr()
    assert layout.pack(padded).data_ptr() == x_TD.data_ptr()
    assert torch.equal(layout.pack(padded), x_TD)


def test_a_rectangle_says_the_same_as_ragged_rows_of_one_length():
    even, ragged = Layout.rectangle(3, 4), Layout.ragged([4, 4, 4])
    for name in ("rows", "longest", "tokens", "lengths", "start"):
        assert getattr(even, name) == getattr(ragged, name)
    for name in ("lengths_B", "offsets", "positions_T", "rows_T", "slots_T", "real_BL"):
        assert torch.equal(getattr(even, name), getattr(ragged, name))
    assert even.full


def test_a_rectangle_may_start_late_and_hold_dead_places():
    late = Layout.rectangle(2, 3, start=5)
    assert late.positions_T.tolist() == [5, 6, 7, 5, 6, 7] and late.start == 5
    dead = Layout.rectangle(2, 3, lengths_B=torch.tensor([3, 1]))
    assert dead.even and not dead.full and dead.lengths is None
    assert dead.real_BL.tolist() == [[True, True, True], [True, False, False]]
    assert [row.tolist() for row in dead.split(torch.arange(6))] == [[0, 1, 2], [3]]


@given(LENGTHS)
def test_split_gives_one_tensor_for_each_row(lengths):
    layout = Layout.ragged(lengths)
    x_T = torch.arange(sum(lengths))
    fixed = replace(layout, lengths=None)
    for rows in (layout.split(x_T), fixed.split(x_T)):
        assert [row.tolist() for row in rows] == [list(range(*span)) for span in spans(lengths)]


def test_a_batch_of_no_rows_is_a_batch():
    layout = Layout.ragged([])
    assert (layout.rows, layout.tokens, layout.longest) == (0, 0, 0)
    assert layout.pack(layout.pad(torch.zeros(0, 3))).shape == (0, 3)


def test_moving_takes_every_tensor_along_and_forgets_what_was_derived():
    layout = Layout.ragged([2, 1])
    given = replace(layout, segments_T=torch.zeros(3), orders_T=torch.arange(3))
    assert given.slots_T.device.type == "cpu"
    moved = given.to("meta")
    tensors = [getattr(moved, f.name) for f in fields(moved)]
    devices = [one.device.type for one in tensors if isinstance(one, Tensor)]
    assert devices == ["meta"] * 5
    assert "slots_T" not in vars(moved)
    assert (moved.rows, moved.longest, moved.lengths) == (2, 2, (2, 1))


def test_a_layout_cannot_be_changed():
    with pytest.raises(AttributeError):
        Layout.ragged([1]).rows = 2


def test_a_layout_shows_its_rows_tokens_lengths_and_offsets():
    shown = "Layout(rows=2, tokens=5, longest=3, lengths=(2, 3), offsets=tensor([0, 2, 5], "
    assert repr(Layout.ragged([2, 3])) == f"{shown}dtype=torch.int32))"
