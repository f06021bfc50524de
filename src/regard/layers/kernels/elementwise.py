"""Elementwise parts of a block on CUDA, for inference: rotary positions, gates, norms.

torch's operators read and write each intermediate result, in single precision for the positions.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from regard.layers.kernels.few_rows import HALVES, NAMES, act, jit, triton

if triton is not None:
    import triton.language as tl

AT_ONCE = 1024  # outputs of a program that gates


def fits(*tensors: Tensor) -> bool:
    """Whether tensors are in half precision on CUDA and need no gradient, and Triton is installed.

    torch fuses elementwise operators itself in code that it compiles.
    """
    needed = torch.is_grad_enabled()
    return (
        triton is not None
        and not torch.compiler.is_compiling()
        and all(
            x.is_cuda and x.dtype in HALVES and not (needed and x.requires_grad) for x in tensors
        )
    )


def turned(x_THK: Tensor, positions_T: Tensor, frequencies_F: Tensor) -> Tensor:
    """Queries or keys turned by the angles of their positions: ``rotary.turn``."""
    tokens, heads, size = x_THK.shape
    x_THK = x_THK if x_THK.stride()[1:] == (size, 1) else x_THK.contiguous()
    out_THK = torch.empty(x_THK.shape, dtype=x_THK.dtype, device=x_THK.device)
    half = len(frequencies_F)
    blocks = [triton.next_power_of_2(max(n, 1)) for n in (heads, half, size - 2 * half)]
    if tokens:
        tensors = x_THK, out_THK, positions_T, frequencies_F
        _turn[tokens,](*tensors, x_THK.stride(0), heads, half, size, *blocks, num_warps=4)
    return out_THK


def gated(inner_TF: Tensor, activation: Callable[[Tensor], Tensor]) -> Tensor:
    """act(first) ⊙ second of the two halves of each row."""
    inner_TF = inner_TF.contiguous()
    rows, outputs = inner_TF.shape[0], inner_TF.shape[1] // 2
    out_TF = torch.empty((rows, outputs), dtype=inner_TF.dtype, device=inner_TF.device)
    if out_TF.numel():
        grid = (triton.cdiv(out_TF.numel(), AT_ONCE),)
        _gate[grid](inner_TF, out_TF, out_TF.numel(), outputs, NAMES[activation], AT_ONCE)
    return out_TF


def normed(x_TD: Tensor, norm: nn.Module) -> Tensor:
    """States after a norm whose weights are in half precision; statistics are in single."""
    x_TD, width = x_TD.contiguous(), x_TD.shape[-1]
    out_TD = torch.empty_like(x_TD)
    gain_D, shift_D = norm.weight, norm.bias
    settings = {
        "has_shift": shift_D is not None,
        "centred": isinstance(norm, nn.LayerNorm),
        "block": triton.next_power_of_2(width),
    }
    if len(x_TD):
        tensors = x_TD, out_TD, gain_D, gain_D if shift_D is None else shift_D
        _norm[len(x_TD),](*tensors, width, norm.eps, **settings, num_warps=4)
    return out_TD


@jit
def _turn(
    x_in, out, positions, frequencies, stride, heads, half, size,
    head_block: "tl.constexpr", half_block: "tl.constexpr", rest_block: "tl.constexpr",
):  # fmt: skip
    """Kernel for all heads of one token: dimension i is paired with i + half, others are copied."""
    token, head = tl.program_id(0).to(tl.int64), tl.arange(0, head_block)[:, None]
    pair, rest = tl.arange(0, half_block)[None, :], tl.arange(0, rest_block)[None, :] + 2 * half
    frequency = tl.load(frequencies + pair, mask=pair < half, other=0.0)
    angle = tl.load(positions + token).to(tl.float32) * frequency
    cosine, sine = tl.cos(angle), tl.sin(angle)
    x_at, out_at = x_in + token * stride + head * size, out + (token * heads + head) * size
    mask = (head < heads) & (pair < half)
    first = tl.load(x_at + pair, mask=mask, other=0.0).to(tl.float32)
    second = tl.load(x_at + pair + half, mask=mask, other=0.0).to(tl.float32)
    element = out.dtype.element_ty
    tl.store(out_at + pair, (first * cosine - second * sine).to(element), mask=mask)
    tl.store(out_at + pair + half, (second * cosine + first * sine).to(element), mask=mask)
    mask = (head < heads) & (rest < size)
    tl.store(out_at + rest, tl.load(x_at + rest, mask=mask, other=0.0), mask=mask)


@jit
def _gate(
    x_in, out, size, outputs, activation: "tl.constexpr", block: "tl.constexpr"
):  # fmt: skip
    """Kernel for some outputs, counted over all rows."""
    index = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    x_at, mask = x_in + index + index // outputs * outputs, index < size
    gate = tl.load(x_at, mask=mask, other=0.0).to(tl.float32)
    y = act(gate, activation) * tl.load(x_at + outputs, mask=mask, other=0.0).to(tl.float32)
    tl.store(out + index, y.to(out.dtype.element_ty), mask=mask)


@jit
def _norm(
    x_in, out, gain, shift, width, eps, has_shift: "tl.constexpr", centred: "tl.constexpr",
    block: "tl.constexpr",
):  # fmt: skip
    """Kernel for one row."""
    index, start = tl.arange(0, block), tl.program_id(0).to(tl.int64) * width
    mask = index < width
    x = tl.load(x_in + start + index, mask=mask, other=0.0).to(tl.float32)
    if centred:
        x = tl.where(mask, x - tl.sum(x, 0) / width, 0.0)
    y = x * tl.rsqrt(tl.sum(x * x, 0) / width + eps)
    y *= tl.load(gain + index, mask=mask, other=0.0).to(tl.float32)
    if has_shift:
        y += tl.load(shift + index, mask=mask, other=0.0).to(tl.float32)
    tl.store(out + start + index, y.to(out.dtype.element_ty), mask=mask)
