import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from naive import LENGTHS
from regard.core.batch import IGNORED, Batch, BatchLimits, ImageRow, SourceTarget, pack, pack_texts
from regard.core.errors import BadInput
from regard.core.pytree import tensors_in


@st.composite
def filled(draw) -> tuple[BatchLimits, list[list[int]]]:
    """A budget, and rows that fit it."""
    longest = draw(st.integers(1, 6))
    limits = BatchLimits(draw(st.integers(longest, 30)), draw(st.integers(1, 5)), longest)
    rows: list[list[int]] = []
    for _ in range(draw(st.integers(0, limits.rows))):
        room = min(longest, limits.tokens - sum(map(len, rows)))
        rows.append([7] * draw(st.integers(0, room)))
    return limits, rows


@given(LENGTHS)
def test_free_rows_are_laid_end_to_end(lengths):
    rows = [[10 * row + place for place in range(length)] for row, length in enumerate(lengths)]
    packed = pack(rows)
    assert packed.tokens_T.tolist() == [token for row in rows for token in row]
    assert packed.tokens_T.dtype == torch.int64
    assert packed.layout.lengths == tuple(lengths)
    assert packed.real == sum(lengths)


def test_no_rows_at_all():
    assert pack([]).tokens_T.shape == (0,)


@given(filled())
def test_a_budget_is_filled_to_the_last_token_with_a_fixed_number_of_rows(case):
    limits, rows = case
    packed = pack(rows, limits, padding=3)
    layout, lengths = packed.layout, packed.layout.lengths_B.tolist()
    real = [len(row) for row in rows]
    assert packed.tokens_T.shape == layout.positions_T.shape == (limits.tokens,)
    assert len(lengths) == layout.rows == limits.all_rows
    assert sum(lengths) == layout.offsets[-1] == limits.tokens
    assert lengths[: len(real)] == real
    assert layout.longest == limits.longest >= max(lengths)
    assert layout.lengths is None and layout.start == 0
    assert layout.positions_T.tolist() == [i for length in lengths for i in range(length)]
    assert packed.real == sum(real)
    assert (packed.tokens_T[: packed.real] == 7).all()
    assert (packed.tokens_T[packed.real :] == 3).all()


@given(filled())
def test_all_batches_of_one_budget_have_the_same_shapes(case):
    limits, rows = case
    layouts = [pack(some, limits).layout for some in (rows, [], rows[:1])]
    shapes = [(x.rows, x.longest, x.offsets.shape, x.positions_T.shape) for x in layouts]
    assert len(set(shapes)) == 1


@pytest.mark.parametrize(
    "rows", [[[1] * 5], [[1]] * 4, [[1] * 4, [1] * 4, [1]]], ids=["longest", "rows", "tokens"]
)
def test_rows_that_do_not_fit_are_refused(rows):
    with pytest.raises(ValueError, match="do not fit"):
        pack(rows, BatchLimits(tokens=8, rows=3, longest=4))


@pytest.mark.parametrize("limits", [(0, 1, 1), (4, 0, 2), (4, 1, 0), (4, 1, 5)])
def test_a_budget_must_make_sense(limits):
    with pytest.raises(BadInput, match="BatchLimits"):
        BatchLimits(*limits)


def test_a_batch_counts_what_is_real():
    limits = BatchLimits(tokens=10, rows=2, longest=5)
    source, target = pack([[1, 2, 3], [4]], limits), pack([[1, 2], [3, 4, 5]], limits)
    goals = pack([[2, 9], [4, 5, 9]], limits, padding=IGNORED)
    targets = {"next_token": goals.tokens_T}
    batch = Batch(SourceTarget(source, target), targets, weight=5)
    assert batch.tokens == 4 + 5
    assert Batch(target, targets, weight=5).tokens == 5
    assert (batch.targets["next_token"] != IGNORED).sum() == batch.weight


def test_a_batch_moves_as_a_whole():
    rows, index_N = pack([[1, 2], [3]]), torch.tensor([0, 2])
    by_head = {"positions": {"mlm": index_N}, "weights": {"mlm": torch.ones(2)}}
    moved = Batch(SourceTarget(rows, rows), {"mlm": index_N}, 3, **by_head).to("meta")
    for side in (moved.inputs.source, moved.inputs.target):
        assert side.tokens_T.device.type == side.layout.offsets.device.type == "meta"
        assert side.real == 3
    assert moved.weight == 3
    for tensors in (moved.targets, moved.positions, moved.weights):
        assert tensors["mlm"].device.type == "meta"


def test_images_are_rows_of_one_token_filled_up_to_the_rows_of_the_limits():
    rows = [ImageRow(lambda: np.full((3, 2, 2), 7, np.uint8), key) for key in (5, 6)]
    batch = pack_texts(rows)
    assert batch.tokens_T.shape == (2, 3, 2, 2) and batch.tokens_T.dtype == torch.uint8
    assert batch.layout.lengths == (1, 1) and batch.keys_B.tolist() == [5, 6] and batch.real == 2
    fixed = pack_texts(rows, BatchLimits(4, 9, 1))
    assert len(fixed.tokens_T) == fixed.layout.rows == 4 and fixed.real == 2
    assert fixed.tokens_T[2:].eq(0).all() and fixed.keys_B.tolist() == [5, 6, 0, 0]
    assert [tensor.device.type for tensor in tensors_in(fixed.to("cpu"))].count("cpu") >= 5
