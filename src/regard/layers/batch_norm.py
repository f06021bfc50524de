"""Batch norm of rows (Ioffe & Szegedy, 2015, arXiv:1502.03167)."""

import torch
from torch import Tensor, nn

from regard.core.layout import Layout


class RowBatchNorm(nn.Module):
    """Batch norm over the rows of a batch that have tokens.

    Outside training, and if its weights are frozen, it uses running means, which are saved with the
    weights.
    """

    def __init__(self, width: int, *, eps: float = 1e-5, momentum: float = 0.1):
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))
        self.running_mean: Tensor
        self.running_var: Tensor
        self.register_buffer("running_mean", torch.zeros(width))
        self.register_buffer("running_var", torch.ones(width))

    def forward(self, x_BD: Tensor, layout: Layout) -> Tensor:
        own = self.training and self.weight.requires_grad
        mean_D, variance_D = self._measure(x_BD, layout) if own else self._running
        scale_D = self.weight.float() * (variance_D + self.eps).rsqrt()
        return ((x_BD.float() - mean_D) * scale_D + self.bias.float()).to(x_BD.dtype)

    @property
    def _running(self) -> tuple[Tensor, Tensor]:
        return self.running_mean.float(), self.running_var.float()

    def _measure(self, x_BD: Tensor, layout: Layout) -> tuple[Tensor, Tensor]:
        """Mean and variance of this batch; updates the running means."""
        x_BD, real_B1 = x_BD.float(), ~layout.empty_B[:, None]
        count = real_B1.sum().clamp(min=1)
        mean_D = (x_BD * real_B1).sum(0) / count
        variance_D = ((x_BD - mean_D).square() * real_B1).sum(0) / count
        with torch.no_grad():
            unbiased_D = variance_D * count / (count - 1).clamp(min=1)
            self.running_mean.lerp_(mean_D, self.momentum)
            self.running_var.lerp_(unbiased_D, self.momentum)
        return mean_D, variance_D
