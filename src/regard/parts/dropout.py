"""Dropout (Srivastava et al., 2014): numbers set to zero at random, the others made larger."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

GRAINS = 1 << 16  # a rate is rounded to so many parts


class Dropout(nn.Module):
    """``nn.Dropout``, but that one draw of 64 bits decides over four numbers where that is faster.

    On a CPU torch draws a number for each, on one core, which may take a tenth of a training step;
    so does a compiled step on CUDA, in every norm that follows a dropout.
    """

    def __init__(self, rate: float):
        super().__init__()
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        slow = x.device.type == "cpu" or torch.compiler.is_compiling()
        if not self.training or not 0 < self.rate < 1 or not slow:
            return F.dropout(x, self.rate, self.training)
        dropped = min(round(self.rate * GRAINS), GRAINS - 1)
        return x * drawn(x, dropped).to(x.dtype) * (GRAINS / (GRAINS - dropped))


def drawn(x: Tensor, dropped: int) -> Tensor:
    """Which numbers are kept, each with a chance of 1 - ``dropped`` / ``GRAINS``."""
    count, bits = x.numel(), 1 << 63
    whole = torch.randint(-bits, bits - 1, (-(-count // 4),), device=x.device)
    quarters = whole.view(torch.int16)[:count].view(x.shape)
    return quarters >= dropped - GRAINS // 2
