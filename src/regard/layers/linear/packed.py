"""Linear layers for inference, in float32 and bfloat16, with weights packed for oneDNN."""

from functools import lru_cache
from typing import NoReturn

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.core.machine import has

WIDE = 8  # outputs per input, as in the output layer
FEW, FEW_WIDE = 8, 1  # rows up to which torch's own product is the faster one
# Errors of a torch that lacks the operator, or does not support it on this machine.
ABSENT = (AttributeError, NotImplementedError, RuntimeError)


class InferenceLinear(nn.Module):
    """Base class of linear layers with packed weights, for inference; they cannot be saved."""

    def __init__(self, linear: nn.Linear):
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.bias_F: Tensor | None = None if linear.bias is None else linear.bias.detach()

    def extra_repr(self) -> str:
        return f"{self.in_features}, {self.out_features}, bias={self.bias_F is not None}"

    def _save_to_state_dict(self, *_) -> NoReturn:
        raise TypeError(f"{type(self).__name__} cannot be saved; save the original model")

    def __reduce_ex__(self, _) -> NoReturn:
        raise TypeError(f"{type(self).__name__} cannot be copied; copy the original model")


class PackedLinear(InferenceLinear):
    """``nn.Linear`` in float32, with packed weights for many rows.

    Wide layers have transposed weights for a single row, which takes up to a quarter less time.
    """

    def __init__(self, linear: nn.Linear):
        super().__init__(linear)
        weight_FD = linear.weight.detach()
        wide = self.out_features >= WIDE * self.in_features
        self.few = FEW_WIDE if wide else FEW
        self.weight_FD = weight_FD.T.contiguous().T if wide else weight_FD
        self.packed = packed(weight_FD) if can_pack(torch.float32) else None

    def forward(self, x: Tensor) -> Tensor:
        if self.packed is None or x.numel() <= self.few * self.in_features:
            return F.linear(x, self.weight_FD, self.bias_F)
        return multiplied(x, self.packed, self.bias_F)


class HalfLinear(InferenceLinear):
    """``nn.Linear`` with weights, activations and results rounded to bfloat16."""

    def __init__(self, linear: nn.Linear):
        super().__init__(linear)
        self.packed = packed(linear.weight.detach().bfloat16())
        self.bias_F = None if self.bias_F is None else self.bias_F.bfloat16()

    def forward(self, x: Tensor) -> Tensor:
        return multiplied(x.bfloat16(), self.packed, self.bias_F).float()


def packed(weight_FD: Tensor) -> Tensor:
    """Weights reordered for ``multiplied``."""
    return torch.ops.mkldnn._reorder_linear_weight(weight_FD)


def multiplied(x: Tensor, packed: Tensor, bias_F: Tensor | None) -> Tensor:
    """Product xW + b with packed weights."""
    return torch.ops.mkldnn._linear_pointwise(x, packed, bias_F, "none", [], "")


def can_pack(dtype: torch.dtype) -> bool:
    """Whether this torch packs weights on this machine, and products with them are fast."""
    return (dtype != torch.bfloat16 or has("bf16")) and _packs(dtype)


@lru_cache
def _packs(dtype: torch.dtype) -> bool:
    """Whether a trial product succeeds."""
    x = torch.eye(16, dtype=dtype)
    try:
        return torch.equal(multiplied(x, packed(x), None), x)
    except ABSENT:
        return False
