"""Dropout (Srivastava et al., 2014): numbers set to zero at random, the others made larger."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

GRAINS = 1 << 16  # a rate is rounded to so many parts


class Dropout(nn.Module):
    """``nn.Dropout``, but that on a CPU one draw of 64 bits decides over four numbers.

    torch draws a number for each, on one core, which may take a tenth of a training step.
    """

    def __init__(self, rate: float):
        super().__init__()
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or not 0 < self.rate < 1 or x.device.type != "cpu":
            return F.dropout(x, self.rate, self.training)
        return x * drawn(x.shape, self.rate, x.dtype)


def drawn(shape: torch.Size, rate: float, dtype: torch.dtype) -> Tensor:
    """A factor for each number: 0, or what makes the mean 1 again."""
    dropped = min(round(rate * GRAINS), GRAINS - 1)
    count = shape.numel()
    whole = torch.empty(-(-count // 4), dtype=torch.int64).random_(-(1 << 63), None)
    quarters = whole.view(torch.int16)[:count].view(shape)
    kept = quarters >= dropped - GRAINS // 2
    return kept.to(dtype).mul_(GRAINS / (GRAINS - dropped))
