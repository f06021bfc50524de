"""Embeddings: the base class of values and modules, and positions (sinusoid, learned, relative)."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from regard.ground.layout import Layout
from regard.models.facts import at_least
from regard.parts.attend import DistanceDot
from regard.parts.relative_score import sinusoid


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
        return SinusoidPositions(width, self.base, halves=self.halves)


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
        return LearnedPositions(self.longest, width, offset=self.offset)


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
POSITIONS: dict[str, Position | None] = {
    "none": None,
    "sinusoid": Sinusoid(),
    "learned": Learned(512),  # as many as BERT's
    "relative": Relative(16),  # as far as in Shaw et al. (2018)
}


class AnyEmbedding:
    """Base class of embeddings, with the defaults of one without positions and segments."""

    reads_images: ClassVar[bool] = False
    vocab: int = 0  # how many ids it knows
    position: Position | None = None
    segments: int = 0
    embedding_size: int | None = None
    prefix_tokens: int | None = None  # before each row; None: those of the tokenizer
    spelling_vocab: int = 0  # how many ids characters have beside those of words
    joined: Mapping[int, int] = MappingProxyType({})  # sizes of features, by the layer they join

    @property
    def has_distillation_token(self) -> bool:
        """Whether the second token of a row is one that learns from a teacher."""
        return False

    @property
    def sizes(self) -> dict[str, int]:
        """How many it knows of what tokenizers count."""
        return {"tokens": self.vocab}

    @property
    def limit(self) -> int | None:
        """The most tokens of a row, where positions are learned."""
        return None if self.position is None else self.position.limit

    @property
    def ids_per_token(self) -> tuple[int, ...]:
        """The shape of the ids of a token: one id, or the ids of its characters."""
        return ()

    @property
    def characters_per_word(self) -> int:
        """How many characters of a word it reads; 0 if it reads none."""
        return 0

    def vectors(self, length: int) -> int:
        """The number of vectors of a row of ``length`` tokens: by default one for each token."""
        return length

    def build(self, width: int, dropout: float, eps: float = 1e-5) -> "EmbeddingModule":
        """The embedding for a stack that reads vectors of that size."""
        raise NotImplementedError

    def macs(self, width: int) -> int:
        """MACs for each token."""
        raise NotImplementedError


class EmbeddingModule(nn.Module):
    """Base class of the modules of embeddings, with defaults."""

    position_limit: int | None = None  # the most tokens of a row, if positions are learned
    segments: int = 0
    ids_per_token: tuple[int, ...] = ()
    token: Any  # the vectors of ids
    scale: float = 1.0  # what these are multiplied by where they are read

    @property
    def vocab(self) -> int:
        """How many ids have vectors."""
        return self.token.num_embeddings

    def layout_of(self, tokens: Tensor, layout: Layout) -> Layout:
        """The layout of its vectors: by default one for each token."""
        return layout

    def resampled(self, other: Any) -> dict[str, Tensor]:
        """The weights that another embedding of its kind has in another shape, in that shape."""
        return {}
