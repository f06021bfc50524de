"""Facts of positions: sinusoids, learned vectors, or distances between tokens."""

from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from regard.models.facts.checks import at_least
from regard.parts.attend import DistanceDot
from regard.parts.embeddings.position import LearnedPositions, SinusoidPositions


class AnyPosition:
    """What facts of positions answer, and the answers of most.

    ``by_distance``: attention layers score by distance, and embeddings add nothing.
    """

    by_distance: ClassVar[bool] = False

    @property
    def limit(self) -> int | None:
        """The most tokens of a row, if there is a limit."""
        return None

    def score(self, key: int) -> nn.Module | None:
        """The score of attention layers with keys of that size, if it is one of its own."""
        return None


@dataclass(frozen=True)
class Sinusoid(AnyPosition):
    """Fixed positions."""

    base: float = 10_000.0
    halves: bool = False

    def build(self, width: int) -> nn.Module:
        """The part that gives these positions."""
        return SinusoidPositions(width, self.base, halves=self.halves)


@dataclass(frozen=True)
class Learned(AnyPosition):
    """Trained positions; ``offset`` vectors before them are not used."""

    longest: int
    offset: int = 0

    def __post_init__(self) -> None:
        at_least(1, "longest", self.longest)
        at_least(0, "offset", self.offset)

    @property
    def limit(self) -> int:
        return self.longest

    def build(self, width: int) -> nn.Module:
        """The part that gives these positions."""
        return LearnedPositions(self.longest, width, offset=self.offset)


@dataclass(frozen=True)
class Relative(AnyPosition):
    """Distances in place of positions: every attention layer scores by them (``DistanceDot``).

    Tokens more than ``farthest`` places apart count as that far apart.
    """

    by_distance: ClassVar[bool] = True
    farthest: int

    def build(self, width: int) -> None:
        """Embeddings add nothing."""

    def score(self, key: int) -> nn.Module:
        return DistanceDot(self.farthest, key)


Position = Sinusoid | Learned | Relative
