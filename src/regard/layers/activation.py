"""Activation functions, by their names in facts."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

SLOPE, CUBE = 1.5957691216057308, 0.044715  # 2√(2/π)
QUICK = 1.702


def gelu_tanh(x: Tensor) -> Tensor:
    """GELU approximated by tanh (Hendrycks & Gimpel, 2016, arXiv:1606.08415), as in GPT.

    In a compiled step on a GPU in 16 bits, tanh takes longer than reading and writing its inputs
    and outputs; the equivalent sigmoid does not.
    """
    if not (x.is_cuda and x.itemsize == 2 and torch.compiler.is_compiling()):
        return F.gelu(x, approximate="tanh")
    return gelu_by_sigmoid(x.float()).to(x.dtype)


def gelu_by_sigmoid(x: Tensor) -> Tensor:
    """``gelu_tanh`` computed by a sigmoid instead of tanh."""
    return x * torch.sigmoid(SLOPE * (x + CUBE * x**3))


def gelu_sigmoid(x: Tensor) -> Tensor:
    """GELU approximated by a sigmoid, x σ(1.702 x) (Hendrycks & Gimpel, 2016), as in CLIP."""
    return x * torch.sigmoid(QUICK * x)


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu-tanh": gelu_tanh,
    "gelu-sigmoid": gelu_sigmoid,
    "swish": F.silu,
    "tanh": torch.tanh,
}
