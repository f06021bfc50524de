"""Kernels on CUDA in half precision, against ``attend`` in single, forward and backward."""

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from regard.core.batch import BatchLimits, pack
from regard.core.layout import Layout
from regard.layers.attend import Dot, Mask, ScaledDot, WindowMask, attend, causal, full
from regard.layers.kernels import bucketed, dense, packed_dropout, varlen
from regard.layers.kernels.call import AttentionCall
from regard.layers.kernels.fast_attend import choose
from regard.layers.relative_bias import BiasedDot

pytestmark = pytest.mark.gpu

HEADS, SIZE = 4, 32
LENGTHS, OTHERS = [17, 0, 1, 64, 1, 5], [3, 9, 0, 1, 1, 70]  # one row has no keys, one no queries
SIGHTS = [full, causal, WindowMask(3, 0), WindowMask(2, 5), WindowMask(None, 1)]
each_sight = pytest.mark.parametrize("mask", SIGHTS, ids=repr)
each_half = pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)


def ragged(lengths: list[int]) -> Layout:
    return Layout.ragged(lengths).to("cuda")


def fixed(lengths: list[int]) -> Layout:
    """The same rows in a batch of fixed shape, with fill behind them."""
    limits = BatchLimits(tokens=200, rows=8, longest=80)
    return pack([[1] * length for length in lengths], limits).layout.to("cuda")


def rectangle(*args: int, **settings) -> Layout:
    return Layout.rectangle(*args, device="cuda", **settings)


def vectors(
    queries: Layout, keys: Layout, value: int = SIZE, dtype: torch.dtype = torch.bfloat16
) -> list[Tensor]:
    sizes = [(queries.tokens, SIZE), (keys.tokens, SIZE), (keys.tokens, value)]
    return [torch.randn(n, HEADS, size, device="cuda").to(dtype) for n, size in sizes]


def near(found: Tensor, wanted: Tensor) -> None:
    """Within 2% all together, and nothing at all where all is nothing."""
    assert found.isfinite().all()
    assert (found.float() - wanted).norm() <= 2e-2 * wanted.norm()


def agree(
    kernel,
    queries: Layout,
    keys: Layout,
    mask: Mask,
    *,
    score: nn.Module | None = None,
    value: int = SIZE,
    dtype: torch.dtype = torch.bfloat16,
) -> None:
    """``kernel`` is chosen, and its values and gradients are those of the definition."""
    score = score or ScaledDot()
    given = vectors(queries, keys, value, dtype)
    halves = [one.clone().requires_grad_() for one in given]
    singles = [one.float().requires_grad_() for one in given]
    call = AttentionCall(score, queries, keys, mask, 0.0)
    assert choose(call, halves[0], halves[2]) is kernel.run
    found = kernel.run(call, *halves)
    wanted = attend(score, *singles, queries=queries, keys=keys, mask=mask)
    assert found.dtype == dtype and found.shape == wanted.shape
    near(found, wanted)
    blind_T = (wanted == 0).flatten(1).all(1)
    assert (found[blind_T] == 0).all()
    towards = torch.randn_like(wanted).to(dtype)
    ours = torch.autograd.grad(found, halves, towards)
    theirs = torch.autograd.grad(wanted, singles, towards.float())
    assert (ours[0][blind_T] == 0).all()
    # Together: a query with one key has a gradient of 0, of which half precision leaves a rest.
    near(*(torch.cat([one.flatten() for one in side]) for side in (ours, theirs)))


@each_sight
@each_half
@pytest.mark.parametrize("lay", [ragged, fixed])
def test_varlen_on_self_attention(lay, mask, dtype):
    layout = lay(LENGTHS)
    agree(varlen, layout, layout, mask, dtype=dtype)


@each_half
@pytest.mark.parametrize("lay", [ragged, fixed])
def test_varlen_on_cross_attention(lay, dtype):
    agree(varlen, lay(LENGTHS), lay(OTHERS), full, dtype=dtype)


def test_flash_is_not_called_without_rows():
    agree(bucketed, ragged([3, 1, 0]), ragged([0, 0, 0]), full)
    agree(bucketed, ragged([0, 0, 0]), ragged([3, 1, 0]), full)


def test_varlen_scales_as_the_score_says():
    layout = ragged(LENGTHS)
    agree(varlen, layout, layout, causal, score=Dot())


def test_varlen_where_a_causal_query_sees_every_key_there_is():
    """Flash counts a causal window from the last key, which is another one here."""
    agree(varlen, ragged([3, 1, 5]), ragged([1, 1, 0]), causal)


def test_packed_rows_do_not_see_each_other():
    layout = ragged(LENGTHS)
    q, k, v = vectors(layout, layout)
    together = varlen.run(AttentionCall(ScaledDot(), layout, layout, full, 0.0), q, k, v)
    for q_row, k_row, v_row, found in zip(*map(layout.split, (q, k, v, together)), strict=True):
        alone = ragged([len(q_row)])
        wanted = attend(
            ScaledDot(), q_row.float(), k_row.float(), v_row.float(), queries=alone, keys=alone
        )
        near(found, wanted)


@each_sight
@each_half
def test_even_on_self_attention(mask, dtype):
    layout = rectangle(3, 48)
    agree(dense, layout, layout, mask, dtype=dtype)


@pytest.mark.parametrize("new", [1, 5])
@each_sight
def test_even_against_a_memory(mask, new):
    agree(dense, rectangle(3, new, start=20), rectangle(3, 20 + new), mask)


@each_sight
def test_even_with_dead_keys_and_rows_without_any(mask):
    lengths_B = torch.tensor([40, 0, 1, 17], dtype=torch.int32, device="cuda")
    agree(dense, rectangle(4, 24), rectangle(4, 40, lengths_B=lengths_B), mask)


@pytest.mark.parametrize("mask", [full, causal], ids=repr)
def test_even_with_values_of_another_size(mask):
    layout = rectangle(2, 16)
    agree(dense, layout, layout, mask, value=64)


@each_sight
def test_grouped_takes_what_flash_does_not(mask):
    layout = ragged(LENGTHS)
    agree(bucketed, layout, layout, mask, value=64)
    agree(bucketed, layout, layout, WindowMask(right=-1))


@each_half
@pytest.mark.parametrize("mask", [full, causal], ids=repr)
def test_a_position_bias_in_rows_of_a_fixed_shape(mask, dtype):
    layout = fixed(LENGTHS)
    score = BiasedDot(HEADS, 8, 20, causal=mask == causal).to("cuda")
    score.draw_vectors(1.0)
    agree(dense, layout, layout, mask, score=score, dtype=dtype)
    given, call = (
        vectors(layout, layout, dtype=dtype),
        AttentionCall(score, layout, layout, mask, 0),
    )
    singles = [one.float() for one in given]
    wanted = attend(score, *singles, queries=layout, keys=layout, mask=mask)
    ours, theirs = (
        torch.autograd.grad(out.float().square().sum(), score.bias.weight)[0]
        for out in (dense.run(call, *given), wanted)
    )
    near(ours, theirs)


def test_which_kernel_runs():
    free, shaped, full = ragged(LENGTHS), fixed(LENGTHS), rectangle(2, 8)

    def chosen(layout: Layout, dtype=torch.bfloat16, mask: Mask = causal, dropout: float = 0.0):
        q, _, v = vectors(layout, layout, dtype=dtype)
        return choose(AttentionCall(ScaledDot(), layout, layout, mask, dropout), q, v)

    assert chosen(free) is chosen(shaped) is varlen.run
    assert chosen(full) is chosen(full, torch.float32) is dense.run
    assert chosen(free, dropout=0.1) is chosen(shaped, dropout=0.1) is packed_dropout.run
    assert chosen(full, dropout=0.1) is dense.run
    assert chosen(free, torch.float32) is chosen(free, torch.float32, dropout=0.1) is bucketed.run
    assert chosen(shaped, torch.float32) is chosen(shaped, torch.float32, dropout=0.1) is None
    assert chosen(shaped, mask=WindowMask(right=-1)) is None  # flash reads -1 as "no limit"


class Names(TorchDispatchMode):
    """The names of the operators that ran."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append(str(func))
        return func(*args, **kwargs or {})


@pytest.mark.parametrize("mask", [full, causal], ids=repr)
def test_full_rows_run_on_cudnn(mask):
    if torch.cuda.get_device_capability() < (9, 0):
        pytest.skip("preferred on Hopper and later")
    layout = rectangle(4, 128)
    call = AttentionCall(ScaledDot(), layout, layout, mask, 0.0)
    with Names() as names:
        dense.run(call, *vectors(layout, layout))
    assert any("cudnn_attention" in name for name in names.seen), names.seen


def test_even_drops_weights_and_keeps_their_mean():
    layout = rectangle(64, 64)
    q, k, _ = vectors(layout, layout)
    out = dense.run(AttentionCall(ScaledDot(), layout, layout, full, 0.2), q, k, torch.ones_like(k))
    assert out.float().std() > 0.01
    assert out.float().mean().item() == pytest.approx(1, abs=0.02)
