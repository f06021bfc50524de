"""Attention with dropout on packed rows on CUDA, against the definition with the same mask."""

import pytest
import torch
from torch import Tensor

from regard.core.batch import BatchLimits, pack
from regard.core.layout import Layout
from regard.layers.attend import Mask, ScaledDot, WindowMask, causal, full, masked_softmax
from regard.layers.kernels import packed_dropout
from regard.layers.kernels.call import AttentionCall
from triton_device import DEVICE, HALVES, INTERPRETED, each_half, on_device

pytestmark = on_device

HEADS, RATE, SEED = 3, 0.3, 5
LENGTHS, OTHERS = [17, 0, 1, 150, 5], [3, 9, 0, 70, 1]  # one row has no keys, one no queries
NEAR = {torch.bfloat16: 2e-2, torch.float16: 3e-3}
BITS = 0xFFFFFFFF


def ragged(lengths: list[int]) -> Layout:
    return Layout.ragged(lengths).to(DEVICE)


def fixed(lengths: list[int]) -> Layout:
    """The same rows in a batch of fixed shape, with tokens of no row behind them."""
    limits = BatchLimits(tokens=260, rows=7, longest=160)
    return pack([[1] * length for length in lengths], limits).layout.to(DEVICE)


def rectangle(rows: int, length: int, lengths: list[int] | None = None) -> Layout:
    lengths_B = None if lengths is None else torch.tensor(lengths, device=DEVICE).int()
    return Layout.rectangle(rows, length, DEVICE, lengths_B=lengths_B)


def odd_hash(x: Tensor, seed: int) -> Tensor:
    """The hash of the kernel in whole numbers of 64 bits."""
    x = (x * 0x9E3779B1 + seed) & BITS
    x = ((x ^ (x >> 16)) * 0x85EBCA6B) & BITS
    x = ((x ^ (x >> 13)) * 0xC2B2AE35) & BITS
    return (x ^ (x >> 16)) | 1


def kept_THS(queries: Layout, keys: Layout, seed: int, rate: float = RATE) -> Tensor:
    every = torch.arange(queries.tokens * HEADS, device=DEVICE).view(-1, HEADS)
    rows, columns = (
        odd_hash(every, seed ^ 0x5BD1E995),
        odd_hash(torch.arange(keys.longest, device=DEVICE), seed),
    )
    return (rows[..., None] * columns) & BITS >= int(rate * BITS)


def definition(
    qkv: list[Tensor], queries: Layout, keys: Layout, mask: Mask, kept: Tensor
) -> Tensor:
    q, k, v = (lay.pad(x.double()) for lay, x in zip((queries, keys, keys), qkv, strict=True))
    allowed_BHLS = (mask(queries, keys) & keys.real_BL[:, None])[:, None]
    scores_BHLS = torch.einsum("blhk,bshk->bhls", q, k) / q.shape[-1] ** 0.5
    weights_BHLS = masked_softmax(scores_BHLS, allowed_BHLS)
    weights_BHLS = weights_BHLS * queries.pad(kept.double()).transpose(1, 2) / (1 - RATE)
    return queries.pack(torch.einsum("bhls,bshk->blhk", weights_BHLS, v))


def near(values: Tensor, expected: Tensor, dtype: torch.dtype) -> None:
    assert values.isfinite().all() and values.shape == expected.shape
    assert (values.double() - expected).norm() <= NEAR[dtype] * expected.norm()


def agree(queries: Layout, keys: Layout, mask: Mask, size: int, dtype: torch.dtype) -> None:
    """Outputs and gradients are those of the definition."""
    torch.manual_seed(SEED)
    both = torch.randn(keys.tokens, 2, HEADS, size, device=DEVICE).to(dtype)
    q = torch.randn(queries.tokens, HEADS, size, device=DEVICE).to(dtype).requires_grad_()
    k, v = (part.requires_grad_() for part in both.unbind(1))  # parts of one tensor
    call = AttentionCall(ScaledDot(), queries, keys, mask, RATE)
    assert packed_dropout.fits(call, q, v)
    torch.manual_seed(SEED)
    attended = packed_dropout.run(call, q, k, v)
    torch.manual_seed(SEED)
    seed = int(torch.randint(1 << 31, (1,), device=DEVICE))
    expected = definition([q, k, v], queries, keys, mask, kept_THS(queries, keys, seed))
    near(attended, expected, dtype)
    assert (attended[(expected == 0).flatten(1).all(1)] == 0).all()
    gradient = torch.randn_like(expected).to(dtype)
    ours = torch.autograd.grad(attended, (q, k, v), gradient)
    exact = torch.autograd.grad(expected, (q, k, v), gradient.double())
    near(*(torch.cat([one.flatten() for one in side]) for side in (ours, exact)), dtype)


@each_half
@pytest.mark.parametrize("size", packed_dropout.SIZES[-1:] if INTERPRETED else packed_dropout.SIZES)
@pytest.mark.parametrize("lay", [ragged, fixed])
def test_self_attention_on_packed_rows(lay, size, dtype):
    layout = lay(LENGTHS)
    agree(layout, layout, full, size, dtype)


@pytest.mark.parametrize("mask", [causal, WindowMask(3, 0), WindowMask(2, 70)], ids=repr)
@pytest.mark.parametrize("lay", [ragged, fixed])
def test_windows(lay, mask):
    layout = lay(LENGTHS)
    agree(layout, layout, mask, 64, HALVES[0])


@pytest.mark.parametrize("lay", [ragged, fixed])
def test_cross_attention(lay):
    agree(lay(LENGTHS), lay(OTHERS), full, 64, HALVES[0])


@pytest.mark.parametrize("mask", [full, causal], ids=repr)
@pytest.mark.parametrize("length", [128] if INTERPRETED else [48, 128, 200])
def test_rectangles(length, mask):
    layout = rectangle(3, length)
    agree(layout, layout, mask, 64, HALVES[0])


def test_rectangles_with_padding():
    layout = rectangle(4, 80, [80, 0, 1, 33])
    agree(layout, layout, full, 64, HALVES[0])


def test_each_pair_is_dropped_with_the_same_probability_and_on_its_own():
    layout = rectangle(24, 256)
    kept = kept_THS(layout, layout, seed=1234, rate=0.1).double().flatten(0, 1)
    standard = (kept - 0.9) / 0.3
    count = standard.numel()
    assert abs(standard.mean()) * count**0.5 < 4
    for shift in (1, 7):  # neighbouring keys; neighbouring heads and queries
        assert abs((standard[:, shift:] * standard[:, :-shift]).mean()) * count**0.5 < 5
        assert abs((standard[shift:] * standard[:-shift]).mean()) * count**0.5 < 5
    between = standard @ standard.T / 256**0.5  # of two queries, over all keys
    assert abs(between.triu(1)[between.triu(1) != 0].std() - 1) < 0.02


@pytest.mark.skipif(INTERPRETED, reason="torch.compile compiles Triton's kernels")
def test_compiled_it_is_the_same_and_each_call_draws_anew():
    layout = rectangle(2, 128)
    qkv = [torch.randn(256, HEADS, 64, device=DEVICE).bfloat16() for _ in range(3)]
    call = AttentionCall(ScaledDot(), layout, layout, full, RATE)
    compiled = torch.compile(lambda q, k, v: packed_dropout.run(call, q, k, v).float().square())
    values = [compiled(*qkv) for _ in range(2)]
    assert not torch.equal(*values)
    assert torch.isclose(
        values[0].sum(), packed_dropout.run(call, *qkv).float().square().sum(), rtol=0.1
    )
