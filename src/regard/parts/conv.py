"""Convolutions over the tokens of a row, gated (Gehring et al., 2017, arXiv:1705.03122)."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.ground.layout import Layout
from regard.parts.dropout import Dropout


class Convolution(nn.Module):
    """(x + GLU(W[x_{i-k}; …; x_{i+k}] + b)) · √½, with k = ``size`` // 2 neighbours on either side.

    Tokens are packed; neighbours that belong to another row count as zeros.
    """

    def __init__(self, width: int, size: int, *, dropout: float = 0.0):
        super().__init__()
        self.reach = size // 2
        self.linear = nn.Linear(size * width, 2 * width)
        nn.init.normal_(self.linear.weight, std=math.sqrt(4 * (1 - dropout) / (size * width)))
        nn.init.zeros_(self.linear.bias)
        self.dropout = Dropout(dropout)

    def forward(self, x_TD: Tensor, layout: Layout) -> Tensor:
        gated_TD = F.glu(self.linear(self._neighbours(self.dropout(x_TD), layout)), dim=-1)
        return (x_TD + gated_TD) * math.sqrt(0.5)

    def _neighbours(self, x_TD: Tensor, layout: Layout) -> Tensor:
        """The window around each token, (T, size · width)."""
        tokens = len(x_TD)
        wide_TD = F.pad(x_TD, (0, 0, self.reach, self.reach))
        row_T = layout.rows_T
        place_T = torch.arange(tokens, device=x_TD.device) - layout.offsets[row_T]
        length_T = layout.lengths_B[row_T]
        window = []
        for shift in range(-self.reach, self.reach + 1):
            at_T = place_T + shift
            same_row_T = (at_T >= 0) & (at_T < length_T)
            shifted_TD = wide_TD[self.reach + shift : self.reach + shift + tokens]
            window.append(shifted_TD.masked_fill(~same_row_T[:, None], 0.0))
        return torch.cat(window, dim=-1)
