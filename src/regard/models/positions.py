"""Positions by name: learned, sinusoids, and distances in attention scores."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from regard.ground.layout import Layout
from regard.models.embedding import AnyPosition, Learned
from regard.parts.attend import DistanceDot
from regard.parts.relative_score import sinusoid


@dataclass(frozen=True)
class Sinusoid(AnyPosition):
    """Sinusoidal positions (Vaswani et al., 2017); ``halves``: all sines before all cosines."""

    base: float = 10_000.0
    halves: bool = False

    def build(self, width: int) -> nn.Module:
        return SinusoidPositions(width, self.base, halves=self.halves)


class SinusoidPositions(nn.Module):
    """Module of sinusoidal positions, for rows of any length, without parameters."""

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


@dataclass(frozen=True)
class Relative(AnyPosition):
    """Relative positions: attention scores depend on distances, clipped to ``farthest``."""

    by_distance: ClassVar[bool] = True
    farthest: int

    def build(self, width: int) -> None:
        """Return no module: nothing is added to embeddings."""

    def score(self, key: int) -> nn.Module:
        return DistanceDot(self.farthest, key)


Position = Sinusoid | Learned | Relative
POSITIONS: dict[str, Position | None] = {
    "none": None,
    "sinusoid": Sinusoid(),
    "learned": Learned(512),  # as many as BERT's
    "relative": Relative(16),  # as far as in Shaw et al. (2018)
}
