"""Positions by name: learned, sinusoids, rotary, and distances in attention scores."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from regard.core.errors import BadFact
from regard.core.layout import Layout
from regard.layers.attend import DistanceDot, Mask, Score, causal, full
from regard.layers.attention import Heads
from regard.layers.relative_score import sinusoid
from regard.layers.rotary import RotaryDot, Rotation, Scaling
from regard.models.embedding import AnyPosition, Learned
from regard.models.facts import above_zero, at_least


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

    def scores(self, heads: Heads, masks: Sequence[Mask]) -> Iterator[Score]:
        return (DistanceDot(self.farthest, heads.key) for _ in masks)


@dataclass(frozen=True)
class Rotary(AnyPosition):
    """Rotary positions (Su et al., 2021, arXiv:2104.09864) of rows of at most ``longest`` tokens.

    ``turned`` is the share of each head's dimensions that are turned. ``local_base``, if set, is
    the base of layers with a window (ModernBERT).
    """

    by_distance: ClassVar[bool] = True
    longest: int
    base: float = 10_000.0
    local_base: float | None = None
    turned: float = 1.0
    scaling: Scaling = None

    def __post_init__(self) -> None:
        at_least(1, self, "longest")
        above_zero(self, "base", "local_base", "turned")
        if self.turned > 1:
            raise BadFact("turned", f"must be at most 1, not {self.turned}")

    @property
    def limit(self) -> int:
        return self.longest

    def scores(self, heads: Heads, masks: Sequence[Mask]) -> Iterator[Score]:
        size = int(heads.key * self.turned)
        if size % 2:
            raise BadFact(
                "key", f"is {heads.key}: rotary positions need an even number of dimensions"
            )
        wide, local = (
            RotaryDot(Rotation(size, base, self.scaling))
            for base in (self.base, self.local_base or self.base)
        )
        return (wide if mask in (full, causal) else local for mask in masks)


Position = Sinusoid | Learned | AnyPosition
POSITIONS: dict[str, Position | None] = {
    "none": None,
    "sinusoid": Sinusoid(),
    "learned": Learned(512),  # as many as BERT's
    "relative": Relative(16),  # as far as in Shaw et al. (2018)
    "rotary": Rotary(2_048),  # as many as in the first Llama
}
