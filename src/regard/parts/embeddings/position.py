"""Position embeddings: sinusoids and learned vectors."""

import math

import torch
from torch import Tensor, nn

from regard.ground.layout import Layout


def sinusoid(
    positions_P: Tensor, width: int, base: float = 10_000.0, *, halves: bool = False
) -> Tensor:
    """sin(pos / n^(2i/d)) and cos(pos / n^(2i/d)) (Vaswani et al., 2017, section 3.5).

    The paper interleaves them (sin, cos, sin, …); ``halves`` lays all sines before all cosines. The
    angles are float64: with float32 frequencies they are 3e-5 off at position 500.
    """
    even = torch.arange(0, width, 2, device=positions_P.device, dtype=torch.float64)
    angles = positions_P[:, None].double() * torch.exp(even * (-math.log(base) / width))
    sine, cosine = angles.sin().float(), angles.cos()[:, : width // 2].float()
    if halves:
        return torch.cat([sine, cosine], dim=1)
    both = positions_P.new_empty(len(positions_P), width, dtype=torch.float32)
    both[:, 0::2], both[:, 1::2] = sine, cosine
    return both


class SinusoidPositions(nn.Module):
    """Fixed sinusoids, for any length, without parameters."""

    limit = None

    def __init__(self, width: int, base: float = 10_000.0, *, halves: bool = False):
        super().__init__()
        self.width, self.base, self.halves = width, base, halves

    def forward(self, layout: Layout) -> Tensor:
        positions_T = layout.positions_T
        if layout.start is not None and layout.longest < layout.tokens:
            table = torch.arange(layout.longest, device=positions_T.device)
            return self._vectors(table + layout.start)[positions_T - layout.start]
        return self._vectors(positions_T)

    def _vectors(self, positions_P: Tensor) -> Tensor:
        return sinusoid(positions_P, self.width, self.base, halves=self.halves)


class LearnedPositions(nn.Embedding):
    """One trained vector per position; the first ``offset`` vectors are not used."""

    def __init__(self, longest: int, width: int, *, offset: int = 0):
        super().__init__(longest + offset, width)
        self.limit, self.offset = longest, offset

    def forward(self, layout: Layout) -> Tensor:  # type: ignore[override]
        if layout.start is not None and layout.start + layout.longest > self.limit:
            last = layout.start + layout.longest - 1
            raise ValueError(f"position {last} is out of range: {self.limit} positions are learned")
        if layout.full and layout.start is not None:  # its gradient is a sum over rows
            first = layout.start + self.offset
            return self.weight[first:][: layout.longest].repeat(layout.rows, 1)
        positions_T = layout.positions_T
        return super().forward(positions_T + self.offset if self.offset else positions_T)
