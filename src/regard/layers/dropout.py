"""Dropout (Srivastava et al., 2014)."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.core.layout import Layout

GRAINS = 1 << 16  # rates are rounded to multiples of 1 / GRAINS


class Dropout(nn.Module):
    """``nn.Dropout`` that draws 64 random bits for every four elements, where that is faster.

    On a CPU torch draws for each element, on one core, which can take a tenth of a training step;
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
        return x * draw_mask(x, dropped).to(x.dtype) * (GRAINS / (GRAINS - dropped))


class TokenDropout(Dropout):
    """Dropout of the states of tokens, each with a mask of its own."""

    def forward(self, x_TD: Tensor, layout: Layout) -> Tensor:  # type: ignore[override]
        return super().forward(x_TD)


class RowDropout(Dropout):
    """Dropout with one mask for all tokens of a row, also called variational or locked (Gal &
    Ghahramani, 2016, arXiv:1512.05287)."""

    def draws(self, width: int) -> int:
        """Number of random draws for a row of states of that width."""
        return width

    def forward(self, x_TD: Tensor, layout: Layout) -> Tensor:  # type: ignore[override]
        if not self.training or not self.rate:
            return x_TD
        mask_BD = super().forward(x_TD.new_ones(layout.rows, self.draws(x_TD.shape[1])))
        if layout.full:
            return layout.pack(layout.pad(x_TD) * mask_BD[:, None])
        return x_TD * mask_BD[layout.rows_T]


class DropPath(RowDropout):
    """Stochastic depth: drops the update of a layer for whole rows (Huang et al., 2016,
    arXiv:1603.09382)."""

    def draws(self, width: int) -> int:
        return 1


def draw_mask(x: Tensor, dropped: int) -> Tensor:
    """Mask of elements to keep, each with probability 1 - ``dropped`` / ``GRAINS``."""
    count, bits = x.numel(), 1 << 63
    whole = torch.randint(-bits, bits - 1, (-(-count // 4),), device=x.device)
    quarters = whole.view(torch.int16)[:count].view(x.shape)
    return quarters >= dropped - GRAINS // 2
