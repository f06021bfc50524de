"""Activations, by the names that facts have.

In a compiled step on a GPU in 16 bits, erf and tanh take longer than it takes to read and write
their numbers. There both kinds of GELU need one exponential, and differ by 3e-7 at most.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

# erfc(z) = exp(-z²) times a polynomial of 1 / (1 + SLOPE z), to 1.5e-7 where z >= 0
# (Abramowitz & Stegun, Handbook of Mathematical Functions, 7.1.26); the highest power is first.
SLOPE = 0.3275911
COEFFICIENTS = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)
ROOT_HALF, LOG2_E, SQRT_2_PI = 0.5**0.5, 1.4426950408889634, 2.5066282746310002


class Gelu(torch.autograd.Function):
    """xΦ(x) in fp32, where Φ is the normal distribution function, and its gradient Φ(x) + xφ(x)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        cdf, _ = normal(x.float())
        return (x * cdf).to(x.dtype)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        (x,), (gradient,) = ctx.saved_tensors, gradients
        cdf, density = normal(x.float())
        return (gradient * (cdf + x * density)).to(x.dtype)


def normal(x: Tensor) -> tuple[Tensor, Tensor]:
    """Φ(x) and φ(x) by one exponential."""
    exponential = torch.exp2(x * x * (-LOG2_E / 2))
    t = 1 / (1 + SLOPE * ROOT_HALF * x.abs())
    tail = torch.zeros_like(x)
    for coefficient in COEFFICIENTS:
        tail = (tail + coefficient) * t
    tail = tail * exponential / 2
    return torch.where(x < 0, tail, 1 - tail), exponential / SQRT_2_PI


def gelu(x: Tensor) -> Tensor:
    """xΦ(x) (Hendrycks & Gimpel, 2016, arXiv:1606.08415)."""
    return Gelu.apply(x) if _bound_by_arithmetic(x) else F.gelu(x)


def gelu_tanh(x: Tensor) -> Tensor:
    """GELU approximated by tanh, as GPT has it."""
    if not _bound_by_arithmetic(x):
        return F.gelu(x, approximate="tanh")
    wide = x.float()
    slope = 4 / SQRT_2_PI
    return (wide * torch.sigmoid(slope * (wide + 0.044715 * wide**3))).to(x.dtype)


def _bound_by_arithmetic(x: Tensor) -> bool:
    return x.is_cuda and x.itemsize == 2 and torch.compiler.is_compiling()


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": gelu,
    "gelu-tanh": gelu_tanh,
    "swish": F.silu,
    "tanh": torch.tanh,
}
