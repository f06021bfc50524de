"""Norms of states: layer norm (Ba et al., 2016) and RMS norm (Zhang & Sennrich, 2019)."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class RMSNorm(nn.Module):
    """Norm x / √(mean(x²) + ε) · g (Zhang & Sennrich, 2019, arXiv:1910.07467, eq. 4)."""

    def __init__(self, width: int, eps: float = 1e-6):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.weight.shape, self.weight.to(x.dtype), self.eps)

    def extra_repr(self) -> str:
        return f"{len(self.weight)}, eps={self.eps}"


NORMS: dict[str, Callable[..., nn.Module]] = {
    "layer": nn.LayerNorm,
    "layer-no-bias": partial(nn.LayerNorm, bias=False),
    "rms": RMSNorm,
}


@dataclass(frozen=True)
class Norm:
    """Kind of a norm, one of ``NORMS``, and its epsilon."""

    kind: str = "layer"
    eps: float = 1e-5

    def build(self, width: int) -> nn.Module:
        """The module of a norm of states of this width."""
        return NORMS[self.kind](width, eps=self.eps)


LAYER_NORM = Norm()
