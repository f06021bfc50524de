"""Kernels say what ``attend`` says, forward and backward, and each runs where it should."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from closeness import GRADIENTS, VALUES
from naive import LENGTH, LENGTHS, PAIRS, SEED, gradients
from regard.core.batch import BatchLimits, pack
from regard.core.layout import Layout
from regard.layers.attend import (
    Cosine,
    Dot,
    Mask,
    PermutationMask,
    ScaledDot,
    WindowMask,
    attend,
    causal,
    full,
)
from regard.layers.kernels import bucketed, dense
from regard.layers.kernels.bucketed import CALL, cut_into_buckets
from regard.layers.kernels.call import AttentionCall
from regard.layers.kernels.fast_attend import choose, fast_attend
from regard.layers.relative_bias import BiasedDot

HEADS, SIZE = 2, 8
SCORE = st.sampled_from([Dot(), ScaledDot()])
VALUE = st.sampled_from([8, 3])
LIMIT = st.none() | st.integers(-1, 3)
WINDOW = st.one_of(st.sampled_from([full, causal]), st.builds(WindowMask, LIMIT, LIMIT))


def vectors(queries: Layout, keys: Layout, value: int = SIZE) -> list[Tensor]:
    sizes = [(queries.tokens, SIZE), (keys.tokens, SIZE), (keys.tokens, value)]
    return [torch.randn(n, HEADS, size, requires_grad=True) for n, size in sizes]


def agree(
    kernel, score: nn.Module, queries: Layout, keys: Layout, mask: Mask, value: int = SIZE
) -> None:
    """``kernel`` is chosen, and its values and gradients are those of the definition."""
    q, k, v = vectors(queries, keys, value)
    call = AttentionCall(score, queries, keys, mask, 0.0)
    assert choose(call, q, v) is kernel.run
    found = kernel.run(call, q, k, v)
    wanted = attend(score, q, k, v, queries=queries, keys=keys, mask=mask)
    torch.testing.assert_close(found, wanted, **VALUES)
    towards = torch.randn_like(wanted)
    ours = torch.autograd.grad((found * towards).sum(), (q, k, v))
    for mine, right in zip(ours, gradients(wanted, (q, k, v), towards), strict=True):
        torch.testing.assert_close(mine, right, **GRADIENTS)


@given(SCORE, LENGTHS, WINDOW, VALUE, SEED)
def test_grouped_on_self_attention(score, lengths, mask, value, seed):
    torch.manual_seed(seed)
    layout = Layout.ragged(lengths)
    agree(bucketed, score, layout, layout, mask, value)


@given(SCORE, PAIRS, VALUE, SEED)
def test_grouped_on_cross_attention(score, pairs, value, seed):
    torch.manual_seed(seed)
    queries, keys = (Layout.ragged(lengths) for lengths in zip(*pairs, strict=True))
    agree(bucketed, score, queries, keys, full, value)


@given(st.lists(st.integers(0, 50), min_size=2, max_size=4), WINDOW, SEED)
def test_grouped_in_several_groups(lengths, mask, seed):
    torch.manual_seed(seed)
    layout = Layout.ragged(lengths)
    agree(bucketed, ScaledDot(), layout, layout, mask)


@given(SCORE, st.integers(0, 3), LENGTH, WINDOW, VALUE, SEED)
def test_even_on_self_attention(score, rows, length, mask, value, seed):
    torch.manual_seed(seed)
    layout = Layout.rectangle(rows, length)
    agree(dense, score, layout, layout, mask, value)


@given(SCORE, LENGTH, LENGTH, WINDOW, VALUE, SEED)
def test_even_against_a_memory(score, past, new, mask, value, seed):
    torch.manual_seed(seed)
    queries, keys = Layout.rectangle(2, new, start=past), Layout.rectangle(2, past + new)
    agree(dense, score, queries, keys, mask, value)


@given(SCORE, LENGTH, LENGTHS, WINDOW, VALUE, SEED)
def test_even_with_dead_keys(score, queries, lengths, mask, value, seed):
    torch.manual_seed(seed)
    dead = Layout.rectangle(len(lengths), max(lengths), lengths_B=torch.tensor(lengths))
    agree(dense, score, Layout.rectangle(len(lengths), queries), dead, mask, value)


def test_a_batch_without_rows_is_answered_with_nothing():
    layout = Layout.ragged([])
    q, k, v = vectors(layout, layout, 3)
    assert bucketed.run(AttentionCall(Dot(), layout, layout, full, 0.0), q, k, v).shape == (
        0,
        HEADS,
        3,
    )


def test_a_batch_without_rows_has_a_gradient_of_the_bias():
    """Processes that divide the weights sum as many gradients as the others."""
    score = BiasedDot(HEADS, 8, 16, causal=False)
    for layout in (Layout.ragged([]), Layout.rectangle(0, 0)):
        q, k, v = vectors(layout, layout)
        score.bias.weight.grad = None
        fast_attend(score, q, k, v, queries=layout, keys=layout).sum().backward()
        assert score.bias.weight.grad is not None and not score.bias.weight.grad.any()


RAGGED, OTHER, EVEN = Layout.ragged([3, 1]), Layout.ragged([2, 4]), Layout.rectangle(2, 3)
DEAD = Layout.rectangle(2, 3, lengths_B=torch.tensor([3, 1]))
FIXED = pack([[1, 2, 3], [4]], BatchLimits(tokens=6, rows=2, longest=4)).layout
DRAWN = replace(RAGGED, orders_T=torch.arange(4))


@pytest.mark.parametrize(
    ("score", "queries", "keys", "mask", "kernel"),
    [
        (ScaledDot(), RAGGED, RAGGED, causal, bucketed.run),
        (ScaledDot(), RAGGED, OTHER, full, bucketed.run),
        (ScaledDot(), EVEN, OTHER, full, bucketed.run),
        (ScaledDot(), RAGGED, OTHER, causal, None),  # places are not positions there
        (ScaledDot(), replace(RAGGED, start=None), OTHER, full, bucketed.run),
        (ScaledDot(), EVEN, EVEN, causal, dense.run),
        (ScaledDot(), EVEN, DEAD, full, dense.run),
        (ScaledDot(), Layout.rectangle(2, 1, start=2), EVEN, causal, dense.run),
        (ScaledDot(), FIXED, FIXED, causal, None),  # on CUDA flash takes it
        (ScaledDot(), DEAD, RAGGED, full, None),
        (Cosine(), RAGGED, RAGGED, full, None),
        (ScaledDot(), DRAWN, DRAWN, PermutationMask(itself=True), None),
    ],
)
def test_which_kernel_runs(score, queries, keys, mask, kernel):
    q, _, v = vectors(queries, keys)
    assert choose(AttentionCall(score, queries, keys, mask, 0.0), q, v) is kernel


def test_positions_that_do_not_count_up_are_left_to_the_definition():
    free = replace(RAGGED, start=None, positions_T=torch.tensor([5, 1, 3, 0]))
    q, k, v = vectors(free, free)
    assert choose(AttentionCall(Dot(), free, free, causal, 0.0), q, v) is None
    out = attend(Dot(), q, k, v, queries=free, keys=free, mask=causal)
    torch.testing.assert_close(out[1], v[1])  # position 1 is the first of its row


def test_one_new_token_sees_its_whole_past_without_a_mask(monkeypatch):
    masks = []
    real = F.scaled_dot_product_attention
    monkeypatch.setattr(
        F, "scaled_dot_product_attention", lambda *x, **settings: masks.append(settings) or real(*x)
    )
    queries, keys = Layout.rectangle(2, 1, start=4), Layout.rectangle(2, 5)
    dense.run(AttentionCall(Dot(), queries, keys, causal, 0.0), *vectors(queries, keys))
    assert [set(settings) for settings in masks] == [{"scale", "dropout_p"}]


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=12))
def test_groups_are_neighbours_whose_padding_is_worth_a_call(pairs):
    queries, keys = ([pair[side] for pair in pairs] for side in (0, 1))
    groups = cut_into_buckets(tuple(queries), tuple(keys))
    assert [n for g in groups for n in g.queries.lengths_B.tolist()] == queries
    assert [n for g in groups for n in g.keys.lengths_B.tolist()] == keys
    for g in groups:
        products = g.queries.lengths_B.long() * g.keys.lengths_B
        padded = g.queries.rows * g.queries.longest * g.keys.longest
        assert padded - int(products.sum()) <= CALL
        assert len({int(n) == 0 for n in g.keys.lengths_B}) == 1
        alike = g.queries.lengths_B.unique().numel() == 1
        assert g.queries.even == alike


def test_rows_of_one_length_are_one_group():
    assert len(cut_into_buckets((40,) * 50, (30,) * 50)) == 1
    assert len(cut_into_buckets((100, 1, 100), (100, 1, 100))) == 3


def test_rows_of_equal_lengths_do_not_depend_on_their_neighbours():
    lengths = [14, 14, 15, 3, 9, 33]
    layout = Layout.ragged(lengths)
    q, k, v = (each.detach() for each in vectors(layout, layout))
    with bucketed.equal_lengths():
        shared = bucketed.run(AttentionCall(ScaledDot(), layout, layout, full, 0.0), q, k, v)
    rows = zip(*(each.split(lengths) for each in (q, k, v, shared)), strict=True)
    for length, (*of_row, expected) in zip(lengths, rows, strict=True):
        alone = Layout.ragged([length])
        call = AttentionCall(ScaledDot(), alone, alone, full, 0.0)
        assert torch.equal(bucketed.run(call, *of_row), expected)
    assert len(cut_into_buckets((3, 3, 4), (3, 3, 4), "cpu", 0)) == 2
    assert len(cut_into_buckets((3, 3, 4), (3, 3, 4))) == 1


def test_what_inference_grouped_can_be_trained_on():
    """Groups are cached; tensors made under inference mode must not reach a backward pass."""
    lengths = [3, 1, 0, 2, 11]  # a list no other test has
    layout = Layout.ragged(lengths)
    for mask in (full, causal, WindowMask(1, 1)):
        q, k, v = vectors(layout, layout)
        call = AttentionCall(Dot(), layout, layout, mask, 0.0)
        with torch.inference_mode():
            first = bucketed.run(call, q, k, v)
        second = bucketed.run(call, q, k, v)
        second.sum().backward()
        torch.testing.assert_close(first, second, **VALUES)
        assert q.grad is not None


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_on_a_cpu_is_computed_in_single(dtype):
    layout = Layout.ragged([5, 0, 1, 7])
    q, k, v = (one.detach().to(dtype) for one in vectors(layout, layout))
    found = bucketed.run(AttentionCall(ScaledDot(), layout, layout, causal, 0.0), q, k, v)
    assert found.dtype == dtype
    exact = attend(
        ScaledDot(), q.float(), k.float(), v.float(), queries=layout, keys=layout, mask=causal
    )
    torch.testing.assert_close(found, exact.to(dtype))


@pytest.mark.parametrize("layout", [Layout.ragged([1] * 400), Layout.rectangle(400, 1)])
def test_kernels_drop_weights_as_the_definition_does(layout):
    q, k, v = vectors(layout, layout)
    call = AttentionCall(Dot(), layout, layout, full, 0.25)
    kernel = choose(call, q, v)
    assert kernel is not None
    out = kernel(call, q, k, v)
    kept = (out != 0).all(-1)
    torch.testing.assert_close(out[kept], v[kept] / 0.75)
    assert (out[~kept] == 0).all()
    assert kept.float().mean() == pytest.approx(0.75, abs=0.06)


class Shifted(ScaledDot):
    """A score that is not q·k: no fused kernel may take it for its base class."""

    def between(self, q_BLHK: Tensor, k_BSHK: Tensor, queries: Layout, keys: Layout) -> Tensor:
        return super().between(q_BLHK, k_BSHK, queries, keys) + 1 / (1 + keys.real_BL.sum())


def test_a_score_that_extends_the_dot_product_runs_as_it_is_defined():
    layout = Layout.ragged([4, 3])
    call = AttentionCall(ScaledDot(), layout, layout, full, 0.0)
    assert call.plain and not replace(call, score=Shifted()).plain
