"""``attend`` against loops, and properties that hold for every score under every mask."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.autograd import gradcheck

from naive import PAIRS, SEED, dot, gradients, scaled_dot
from naive import attend as naive_attend
from regard.core.layout import Layout
from regard.core.tape import Tape
from regard.layers.attend import (
    Additive,
    Bilinear,
    Cosine,
    Dot,
    Location,
    PermutationMask,
    ScaledDot,
    Score,
    WindowMask,
    attend,
    causal,
    full,
    masked_softmax,
)
from regard.layers.attention import Heads, HeadsModule
from regard.layers.kernels.fast_attend import fast_attend
from regard.layers.relative_score import RelativeDot
from regard.models.edits import forced_row, without_head

HEADS, SIZE, VALUE = 2, 4, 3
SCORES = [
    Dot(),
    ScaledDot(),
    Cosine(),
    Additive(SIZE, SIZE, 5, HEADS),
    Bilinear(SIZE, SIZE, HEADS),
    Location(SIZE, 8, HEADS),
    RelativeDot(6, HEADS, SIZE),
]
each_score = pytest.mark.parametrize("score", SCORES, ids=lambda score: type(score).__name__)
each_sight = pytest.mark.parametrize(
    "mask",
    [full, causal, WindowMask(1, 0), WindowMask(right=-1), PermutationMask(itself=False)],
    ids=repr,
)


def vectors(queries: Layout, keys: Layout, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    """Random q, k, v of HEADS heads, whose gradients can be asked for."""
    sizes = [(queries.tokens, SIZE), (keys.tokens, SIZE), (keys.tokens, VALUE)]
    return [torch.randn(n, HEADS, size, dtype=dtype, requires_grad=True) for n, size in sizes]


def with_orders(lengths: list[int]) -> Layout:
    orders = [order for length in lengths for order in torch.randperm(length).tolist()]
    return replace(Layout.ragged(lengths), orders_T=torch.tensor(orders, dtype=torch.int64))


@given(PAIRS, SEED, st.none() | st.integers(0, 3), st.none() | st.integers(-2, 3))
def test_attention_is_a_weighted_mean_of_the_values_seen(pairs, seed, left, right):
    torch.manual_seed(seed)
    lengths = [list(side) for side in zip(*pairs, strict=True)]
    queries, keys = map(Layout.ragged, lengths)
    q, k, v = vectors(queries, keys)
    found = attend(Dot(), q, k, v, queries=queries, keys=keys, mask=WindowMask(left, right))

    def sees(row: int, i: int, j: int) -> bool:
        return (left is None or j >= i - left) and (right is None or j <= i + right)

    wanted = naive_attend(dot, q, k, v, *lengths, sees)
    torch.testing.assert_close(found, wanted)
    towards = torch.randn_like(wanted)
    for ours, theirs in zip(
        gradients(found, (q, k, v), towards), gradients(wanted, (q, k, v), towards), strict=True
    ):
        torch.testing.assert_close(ours, theirs)


def test_gradients_are_right():
    layout = Layout.ragged([3, 0, 1, 2])
    q, k, v = vectors(layout, layout)

    def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return attend(ScaledDot(), q, k, v, queries=layout, keys=layout, mask=WindowMask(right=-1))

    assert gradcheck(run, (q, k, v))


@each_score
@each_sight
def test_packed_rows_do_not_see_each_other(score, mask):
    lengths = [3, 0, 1, 5]
    layout = with_orders(lengths)
    score.double()
    q, k, v = vectors(layout, layout)
    together = attend(score, q, k, v, queries=layout, keys=layout, mask=mask)
    for row, parts in enumerate(zip(*map(layout.split, (q, k, v, together)), strict=True)):
        q_row, k_row, v_row, found = parts
        assert layout.orders_T is not None
        orders_T = layout.split(layout.orders_T)[row]
        alone = replace(Layout.ragged([lengths[row]]), orders_T=orders_T)
        wanted = attend(score, q_row, k_row, v_row, queries=alone, keys=alone, mask=mask)
        torch.testing.assert_close(found, wanted)


@each_score
@each_sight
def test_forbidden_keys_weigh_exactly_nothing_and_the_others_sum_to_one(score, mask):
    layout = with_orders([4, 1, 0, 3])
    score.float()
    q, k, v = vectors(layout, layout, torch.float32)
    tape = Tape("weights")
    attend(score, 100 * q, k, v, queries=layout, keys=layout, mask=mask, tape=tape)
    allowed = (mask(layout, layout) & layout.real_BL[:, None])[:, None]
    weights_BHLS = tape.records["weights"]
    assert (weights_BHLS.masked_select(~allowed) == 0).all()
    seen = allowed.any(-1).expand(weights_BHLS.shape[:-1])
    torch.testing.assert_close(weights_BHLS.sum(-1), seen.float())


@each_score
def test_who_may_see_nothing_gets_zeros_and_gives_no_gradient(score):
    queries, keys = Layout.ragged([2, 1, 3]), Layout.ragged([0, 1, 0])
    score.float()
    q, k, v = vectors(queries, keys, torch.float32)
    for mask, blind in ((full, [0, 1, 3, 4, 5]), (WindowMask(right=-1), list(range(6)))):
        out = attend(score, q, k, v, queries=queries, keys=keys, mask=mask)
        assert (out[blind] == 0).all()
        of_q, of_k, of_v = torch.autograd.grad(
            out.sum(), (q, k, v), allow_unused=True, materialize_grads=True
        )
        assert (of_q[blind] == 0).all()
        assert of_q.isfinite().all() and of_k.isfinite().all()
        assert (of_v == (0 if len(blind) == 6 else 1)).all()


def test_a_score_of_minus_infinity_forbids():
    scores = torch.tensor([[1.0, float("-inf"), 1.0], [float("-inf")] * 3], requires_grad=True)
    weights = masked_softmax(scores, torch.ones(2, 3, dtype=torch.bool))
    assert weights.tolist() == [[0.5, 0, 0.5], [0, 0, 0]]
    (gradient,) = torch.autograd.grad(weights[:, 0].sum(), scores)
    assert gradient.isfinite().all() and (gradient[1] == 0).all()


def test_a_score_that_is_not_a_number_is_not_hidden():
    weights = masked_softmax(torch.tensor([[1.0, torch.nan]]), torch.ones(1, 2, dtype=torch.bool))
    assert weights.isnan().any()


def test_the_softmax_is_taken_in_single_precision_or_better():
    scores = torch.randn(50, 300)
    everything = torch.ones(50, 300, dtype=torch.bool)
    half = masked_softmax(scores.bfloat16(), everything)
    assert half.dtype == torch.bfloat16
    exact = scores.bfloat16().double().softmax(-1)
    torch.testing.assert_close(half.double(), exact, rtol=2**-8, atol=0)
    double = masked_softmax(scores.double(), everything)
    torch.testing.assert_close(double, scores.double().softmax(-1), rtol=1e-12, atol=0)


def test_all_weights_dropped_leave_nothing():
    layout = Layout.ragged([3, 2])
    q, k, v = vectors(layout, layout)
    assert (attend(Dot(), q, k, v, queries=layout, keys=layout, dropout=1.0) == 0).all()


def test_dropout_falls_on_weights_and_keeps_their_mean():
    queries, one, four = (Layout.ragged([n]) for n in (4_000, 1, 4))
    q, k, v = vectors(queries, one)
    out = attend(Dot(), q, k, v, queries=queries, keys=one, dropout=0.2)
    kept = (out != 0).all(-1)
    torch.testing.assert_close(out[kept], (v / 0.8).expand_as(out)[kept])
    assert (out[~kept] == 0).all()
    assert kept.double().mean() == pytest.approx(0.8, abs=0.02)
    q, k, _ = vectors(queries, four)
    v = torch.ones(4, HEADS, VALUE, dtype=torch.float64)
    out = attend(Dot(), q, k, v, queries=queries, keys=four, dropout=0.2)
    assert out.detach().mean() == pytest.approx(1, abs=0.02)


def test_scores_and_weights_can_be_read_and_edited():
    layout = Layout.ragged([3, 2])
    q, k, v = vectors(layout, layout)
    settings = {"queries": layout, "keys": layout, "mask": causal}
    tape = Tape("scores", "weights")
    out = attend(ScaledDot(), q, k, v, **settings, tape=tape)
    assert tape.records["scores"].shape == tape.records["weights"].shape == (2, HEADS, 3, 3)
    wanted = torch.einsum("lhk,shk->hls", q[:3], k[:3]) / SIZE**0.5
    torch.testing.assert_close(tape.records["scores"][0], wanted)

    off = attend(ScaledDot(), q, k, v, **settings, tape=Tape(edits={"weights": without_head(1)}))
    assert (off[:, 1] == 0).all()
    torch.testing.assert_close(off[:, 0], out[:, 0])

    forced = Tape(edits={"weights": forced_row(head=0, query=2, key=1)})
    row = attend(ScaledDot(), q, k, v, **settings, tape=forced)
    torch.testing.assert_close(row[2, 0], v[1, 0])

    def only_the_first(name: str, scores_BHLS: Tensor) -> Tensor:
        later = torch.arange(scores_BHLS.shape[-1]) > 0
        return scores_BHLS.masked_fill(later, float("-inf"))

    first = attend(ScaledDot(), q, k, v, **settings, tape=Tape(edits={"scores": only_the_first}))
    torch.testing.assert_close(first, v[[0, 0, 0, 3, 3]])


class Counted(Score):
    """A score that counts how often it is asked, and that no kernel knows."""

    calls = 0

    def between(self, q: Tensor, k: Tensor, queries: Layout, keys: Layout) -> Tensor:
        self.calls += 1
        return Dot()(q, k, queries, keys)


class CountedDot(Dot):
    """The same, but a dot product as kernels know it."""

    calls = 0

    def forward(self, *args, **kwargs) -> Tensor:
        self.calls += 1
        return super().forward(*args, **kwargs)


@pytest.mark.parametrize(
    ("score", "tape", "calls"),
    [
        (CountedDot(), Tape(), 0),
        (CountedDot(), Tape("output"), 0),
        (CountedDot(), Tape("scores"), 1),
        (CountedDot(), Tape("weights"), 1),
        (CountedDot(), Tape(edits={"weights": without_head(0)}), 1),
        (Counted(), Tape(), 1),
    ],
)
def test_the_definition_runs_only_where_a_kernel_does_not_fit_or_the_tape_asks(score, tape, calls):
    layout = Layout.ragged([3, 2])
    q, k, v = vectors(layout, layout)
    attention = HeadsModule(Heads.of(1, q.shape[1], q.shape[2], v.shape[2]), score, dropout=0.0)
    attention.o = nn.Identity()
    attention.join(q, k, v, layout, layout, tape)
    assert score.calls == calls


@given(PAIRS, SEED)
def test_the_fast_way_says_what_the_loops_say(pairs, seed):
    torch.manual_seed(seed)
    lengths = [list(side) for side in zip(*pairs, strict=True)]
    queries, keys = map(Layout.ragged, lengths)
    q, k, v = vectors(queries, keys)
    found = fast_attend(ScaledDot(), q, k, v, queries=queries, keys=keys)
    torch.testing.assert_close(found, naive_attend(scaled_dot, q, k, v, *lengths))
