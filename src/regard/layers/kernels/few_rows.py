"""A linear layer for few rows on CUDA, fused with norm, activation, gate and residual.

y = residual + act(norm(x) Wᵀ + b) in one launch; after a gated layer, whose output [g; u] has both
its parts, y = residual + (act(g) ⊙ u) Wᵀ + b. A decoding step reads every weight once for a
handful of rows; launches and memory latency dominate, not arithmetic. So every program computes
the norm of all rows itself, and reads the weights of a few outputs only.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from regard.layers.activation import ACTIVATIONS

try:
    import triton
    import triton.language as tl
except ImportError:  # torch's CPU builds come without it
    triton = None

ROWS = 16  # most rows: one tensor-core product
WIDEST = 16_384  # most inputs
HALVES = (torch.bfloat16, torch.float16)
NAMES = {function: name for name, function in ACTIVATIONS.items()}
Kernel = Mapping[tuple[int, ...], Callable[..., object]]  # launched as kernel[grid](*arguments)

PROGRAMS = 360, 100  # least number, for one row and for several, if there are enough outputs
AT_ONCE = 16_384  # weights of a program that has one row
LINE = 64  # weights in a cache line
CHUNK = 512  # inputs of each row whose mean and variance are summed at once


@dataclass(frozen=True)
class Tiling:
    """Division of the work into programs; it changes the time, and results only by rounding.

    A program computes ``outputs``. With several rows each of its warps reads ``inputs`` at a time
    in a pipeline of ``stages``; with one row they read all at once. ``early`` programs start, and
    read or prefetch weights, before the previous kernel has ended.
    """

    outputs: int
    warps: int = 4
    inputs: int = 64
    stages: int = 4
    early: bool = True


def tiling_of(rows: int, inputs: int, outputs: int) -> Tiling:
    """Tiling for these sizes; the same for any number of rows above one."""
    programs, least, block = PROGRAMS[rows > 1], 8, 64
    if rows == 1:
        least, block = 1, min(16, max(1, AT_ONCE // triton.next_power_of_2(inputs)))
    while block > least and outputs < block * programs:
        block //= 2
    return Tiling(block)


def fits(layer: nn.Linear) -> bool:
    """Whether weights are in half precision on CUDA, and Triton is installed."""
    weight = layer.weight
    small = layer.in_features <= WIDEST and weight.numel() < 2**31
    return triton is not None and small and weight.is_cuda and weight.dtype in HALVES


def linear(
    x_RD: Tensor,
    layer: nn.Linear,
    *,
    norm: nn.Module | None = None,
    gate: Callable[[Tensor], Tensor] | None = None,
    activation: Callable[[Tensor], Tensor] | None = None,
    residual_RF: Tensor | None = None,
    tiling: Tiling | None = None,
) -> Tensor:
    """Fused layer: residual + act(layer(norm(x))), (R, F).

    With ``gate``, the rows of x have two halves: the input is gate(first) ⊙ second. Sums are in
    single precision, in an order that depends on the sizes of the layer, and on whether there are
    several rows, but not on how many or on what is in them. More than ``ROWS`` rows are left to
    torch's operators.
    """
    if triton is None or not x_RD.is_cuda or len(x_RD) > ROWS:
        if gate is not None:
            first_RD, second_RD = x_RD.chunk(2, dim=-1)
            x_RD = gate(first_RD) * second_RD
        y_RF = layer(x_RD if norm is None else norm(x_RD))
        y_RF = y_RF if activation is None else activation(y_RF)
        return y_RF if residual_RF is None else residual_RF + y_RF
    rows, inputs, outputs = len(x_RD), layer.in_features, layer.out_features
    tiling = tiling or tiling_of(rows, inputs, outputs)
    gain_D, shift_D = (getattr(norm, name, None) for name in ("weight", "bias"))
    y_RF = torch.empty((rows, outputs), dtype=x_RD.dtype, device=x_RD.device)
    optional = {"bias": layer.bias, "gain": gain_D, "shift": shift_D, "residual": residual_RF}
    settings: dict[str, object] = {
        **{name: y_RF if tensor is None else tensor for name, tensor in optional.items()},
        **{f"has_{name}": tensor is not None for name, tensor in optional.items()},
        "eps": 0.0 if norm is None else norm.eps,
        "centred": isinstance(norm, nn.LayerNorm),
        "gate": None if gate is None else NAMES[gate],
        "activation": None if activation is None else NAMES[activation],
        "block": tiling.outputs,
        "num_warps": tiling.warps,
        **start_settings(tiling.early, x_RD.device),
    }
    grid, tensors = (triton.cdiv(outputs, tiling.outputs),), (x_RD, layer.weight, y_RF)
    if rows == 1:
        wide = triton.next_power_of_2(inputs)
        _one_row[grid](*tensors, inputs, outputs, wide=wide, **settings)
        return y_RF
    settings |= {"row_count": ROWS, "chunk": CHUNK, "num_stages": tiling.stages}
    settings |= {"parts": tiling.warps, "depth": tiling.inputs}
    settings |= {"lines": triton.next_power_of_2(triton.cdiv(inputs, LINE)), "line": LINE}
    _several_rows[grid](*tensors, inputs, outputs, rows, x_RD.stride(0), **settings)
    return y_RF


def jit(kernel: Callable[..., object]) -> Any:
    """Compile a kernel by Triton, if Triton is installed."""
    return kernel if triton is None else triton.jit(kernel)


@jit
def hash_bits(x, seed):
    """Hash each number to 32 random bits (the last steps of murmur3)."""
    x = x.to(tl.uint32) * 0x9E3779B1 + seed
    x = (x ^ (x >> 16)) * 0x85EBCA6B
    x = (x ^ (x >> 13)) * 0xC2B2AE35
    return x ^ (x >> 16)


@jit
def act(y, activation: "tl.constexpr"):
    """Activation function of that name, in single precision; None: the identity."""
    if activation == "relu":
        y = tl.where(y < 0, 0.0, y)
    elif activation == "gelu":
        y = 0.5 * y * (1 + tl.erf(y * 0.7071067811865476))
    elif activation == "gelu-tanh":
        y = y * tl.sigmoid(1.5957691216057308 * (y + 0.044715 * y * y * y))
    elif activation == "gelu-sigmoid":
        y = y * tl.sigmoid(1.702 * y)
    elif activation == "swish":
        y = y * tl.sigmoid(y)
    elif activation == "tanh":
        y = 2 * tl.sigmoid(2 * y) - 1
    return y


@jit
def _prefetch(pointers):
    """Prefetch cache lines into L2, without waiting."""
    code: tl.constexpr = "prefetch.global.L2 [$1]; mov.b32 $0, 0;"
    addresses = pointers.to(tl.int64)
    tl.inline_asm_elementwise(code, "=r,l", [addresses], dtype=tl.int32, is_pure=False, pack=1)


@jit
def _one_row(
    x_in, weight, out, inputs, outputs, bias, gain, shift, residual, eps, wide: "tl.constexpr",
    has_bias: "tl.constexpr", has_gain: "tl.constexpr", has_shift: "tl.constexpr",
    has_residual: "tl.constexpr", centred: "tl.constexpr", gate: "tl.constexpr",
    activation: "tl.constexpr", block: "tl.constexpr", early: "tl.constexpr",
):  # fmt: skip
    """Kernel for one row: a program per block of outputs reads all its weights, then the row."""
    if early:
        tl.extra.cuda.gdc_launch_dependents()
    in_index, out_index = tl.arange(0, wide), tl.program_id(0) * block + tl.arange(0, block)
    in_mask, out_mask = in_index < inputs, out_index < outputs
    w_mask = out_mask[:, None] & in_mask[None, :]
    w = tl.load(weight + out_index[:, None] * inputs + in_index[None, :], mask=w_mask, other=0.0)
    if has_gain:
        g = tl.load(gain + in_index, mask=in_mask, other=0.0).to(tl.float32)
    if has_shift:
        s = tl.load(shift + in_index, mask=in_mask, other=0.0).to(tl.float32)
    if has_bias:
        b = tl.load(bias + out_index, mask=out_mask, other=0.0).to(tl.float32)
    if early:
        tl.extra.cuda.gdc_wait()
    x = tl.load(x_in + in_index, mask=in_mask, other=0.0).to(tl.float32)
    if has_residual:
        r = tl.load(residual + out_index, mask=out_mask, other=0.0).to(tl.float32)
    if gate is not None:
        x = act(x, gate) * tl.load(x_in + inputs + in_index, mask=in_mask, other=0.0)
        x = x.to(w.dtype).to(tl.float32)
    if has_gain:
        if centred:
            x = tl.where(in_mask, x - tl.sum(x, 0) / inputs, 0.0)
        x = x * tl.rsqrt(tl.sum(x * x, 0) / inputs + eps) * g
        if has_shift:
            x += s
        x = x.to(w.dtype).to(tl.float32)
    y = tl.sum(w.to(tl.float32) * x[None, :], 1)
    if has_bias:
        y += b
    y = act(y, activation)
    if has_residual:
        y += r
    tl.store(out + out_index, y.to(out.dtype.element_ty), mask=out_mask)


@jit
def _several_rows(
    x_in, weight, out, inputs, outputs, rows, stride, bias, gain, shift, residual, eps,
    row_count: "tl.constexpr", chunk: "tl.constexpr", has_bias: "tl.constexpr",
    has_gain: "tl.constexpr", has_shift: "tl.constexpr", has_residual: "tl.constexpr",
    centred: "tl.constexpr", gate: "tl.constexpr", activation: "tl.constexpr",
    block: "tl.constexpr", early: "tl.constexpr",
    parts: "tl.constexpr", depth: "tl.constexpr", lines: "tl.constexpr", line: "tl.constexpr",
):  # fmt: skip
    """Kernel for several rows: a program per block of outputs, a part of the inputs per warp."""
    if early:
        tl.extra.cuda.gdc_launch_dependents()
    row, out_index = tl.arange(0, row_count), tl.program_id(0) * block + tl.arange(0, block)
    row_mask, out_mask = row < rows, out_index < outputs
    offsets = row[:, None] * outputs + out_index[None, :]
    tile_mask = row_mask[:, None] & out_mask[None, :]
    if has_bias:
        b = tl.load(bias + out_index, mask=out_mask, other=0.0).to(tl.float32)
    if early:
        line_start = tl.minimum(tl.arange(0, lines) * line, inputs - 1)[None, :]
        _prefetch(weight + tl.minimum(out_index, outputs - 1)[:, None] * inputs + line_start)
        tl.extra.cuda.gdc_wait()
    if has_residual:
        r = tl.load(residual + offsets, mask=tile_mask, other=0.0).to(tl.float32)
    if has_gain:
        x_row, columns = x_in + row[:, None] * stride, tl.arange(0, chunk)[None, :]
        mean = tl.zeros([row_count], tl.float32)
        if centred:
            total = tl.zeros([row_count, chunk], tl.float32)
            for start in range(0, inputs, chunk):
                in_mask = row_mask[:, None] & (start + columns < inputs)
                total += tl.load(x_row + start + columns, mask=in_mask, other=0.0)
            mean = tl.sum(total, 1) / inputs
        total = tl.zeros([row_count, chunk], tl.float32)
        for start in range(0, inputs, chunk):
            in_mask = row_mask[:, None] & (start + columns < inputs)
            x = tl.load(x_row + start + columns, mask=in_mask, other=0.0)
            x = tl.where(in_mask, x.to(tl.float32) - mean[:, None], 0.0)
            total += x * x
        scale = tl.rsqrt(tl.sum(total, 1) / inputs + eps)
    part = tl.arange(0, parts)[:, None] * depth + tl.arange(0, depth)[None, :]
    sums = tl.zeros([parts, row_count, block], tl.float32)
    for start in range(0, inputs, parts * depth):
        in_index = start + part
        in_mask = in_index < inputs
        w_mask = out_mask[None, None, :] & in_mask[:, :, None]
        w_at = weight + out_index[None, None, :] * inputs + in_index[:, :, None]
        w = tl.load(w_at, mask=w_mask, other=0.0)
        x_mask = row_mask[None, :, None] & in_mask[:, None, :]
        x_at = x_in + row[None, :, None] * stride + in_index[:, None, :]
        x = tl.load(x_at, mask=x_mask, other=0.0)
        if gate is not None:
            u = tl.load(x_at + inputs, mask=x_mask, other=0.0)
            x = (act(x.to(tl.float32), gate) * u.to(tl.float32)).to(w.dtype)
        if has_gain:
            g = tl.load(gain + in_index, mask=in_mask, other=0.0).to(tl.float32)
            y = (x.to(tl.float32) - mean[None, :, None]) * scale[None, :, None] * g[:, None, :]
            if has_shift:
                y += tl.load(shift + in_index, mask=in_mask, other=0.0).to(tl.float32)[:, None, :]
            x = y.to(w.dtype)
        sums = tl.dot(x, w, sums)
    y = tl.sum(sums, 0)
    if has_bias:
        y += b[None, :]
    y = act(y, activation)
    if has_residual:
        y += r
    tl.store(out + offsets, y.to(out.dtype.element_ty), mask=tile_mask)


# Programmatic dependent launch, from Hopper on: a kernel starts before the previous one has ended
# and reads weights, which no earlier kernel writes. It waits for all earlier kernels before it
# reads or writes anything else.
try:
    HAS_WAIT = hasattr(tl.extra.cuda, "gdc_wait")
except (NameError, AttributeError):
    HAS_WAIT = False


def start_settings(early: bool, device: torch.device) -> dict[str, bool]:
    """Launch arguments for an early start, if the device supports it."""
    if early and can_start_early(device):
        return {"early": True, "launch_pdl": True}
    return {"early": False}


@cache
def can_start_early(device: torch.device) -> bool:
    """Whether the device and Triton support programmatic dependent launch."""
    return HAS_WAIT and device.type == "cuda" and torch.cuda.get_device_capability(device) >= (9, 0)
