"""Embeddings: base classes of values and modules, and learned positions."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

from torch import Tensor, nn

from regard.core.layout import Layout
from regard.layers.attend import Mask, Score
from regard.layers.attention import Heads
from regard.layers.block import LAYER_NORM, Norm
from regard.models.facts import at_least


class AnyPosition:
    """Base class of positions: added vectors or, if ``by_distance``, terms of attention scores.

    Terms ``by_head`` have parameters of each head.
    """

    by_distance: ClassVar[bool] = False
    by_head: ClassVar[bool] = False

    @property
    def limit(self) -> int | None:
        """The maximum number of tokens of a row; None: no limit."""
        return None

    def check(self, *, causal: bool) -> None:
        """Refuse settings that are wrong in a stack with causal masks, or without."""

    def build(self, width: int) -> nn.Module | None:
        """The module of the vectors that are added to embeddings; None: nothing is added."""
        return None

    def scores(self, heads: Heads, masks: Sequence[Mask]) -> Iterable[Score | None]:
        """The score of each layer, of self-attention with these masks; None: the default score."""
        return [None] * len(masks)


@dataclass(frozen=True)
class Learned(AnyPosition):
    """Learned positions: a vector for each position; the first ``offset`` vectors are not used."""

    longest: int
    offset: int = 0

    def __post_init__(self) -> None:
        at_least(1, self, "longest")
        at_least(0, self, "offset")

    @property
    def limit(self) -> int:
        return self.longest

    def build(self, width: int) -> nn.Module:
        return LearnedPositions(self.longest, width, offset=self.offset)


class LearnedPositions(nn.Embedding):
    """Table of learned position vectors."""

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


class AnyEmbedding:
    """Base class of embeddings; by default without positions and segments."""

    reads_images: ClassVar[bool] = False
    vocab: int = 0  # the number of token ids
    position: AnyPosition | None = None
    segments: int = 0
    embedding_size: int | None = None
    prefix_tokens: int | None = None  # learned vectors before the patches; None: no patches
    joined: Mapping[int, int] = MappingProxyType({})  # sizes of features at inputs of layers

    @property
    def has_distillation_token(self) -> bool:
        """Whether the second token of a row is DeiT's distillation token."""
        return False

    @property
    def sizes(self) -> dict[str, int]:
        """The number of ids, under the names that tokenizers use."""
        return {"tokens": self.vocab}

    @property
    def limit(self) -> int | None:
        """The maximum number of tokens of a row; None: no limit."""
        return None if self.position is None else self.position.limit

    @property
    def ids_per_token(self) -> tuple[int, ...]:
        """The shape of the ids of a token: () for one id, (n,) for n ids of its characters."""
        return ()

    @property
    def characters_per_word(self) -> int:
        """The number of characters per word that are read; 0: none."""
        return 0

    @property
    def spelling_vocab(self) -> int:
        """The number of character ids that exist beside word ids."""
        return 0

    def vectors(self, length: int) -> int:
        """The number of vectors of a row of ``length`` tokens; default: one for each token."""
        return length

    def build(self, width: int, dropout: float, norm: Norm = LAYER_NORM) -> "EmbeddingModule":
        """The module for a stack that reads vectors of size ``width``."""
        raise NotImplementedError

    def macs(self, width: int) -> int:
        """MACs for each token."""
        raise NotImplementedError


class EmbeddingModule(nn.Module):
    """Base class of the modules of embeddings, with defaults."""

    position_limit: int | None = None  # the maximum number of tokens of a row
    segments: int = 0
    ids_per_token: tuple[int, ...] = ()
    token: Any  # the vectors of ids: an nn.Embedding, or None of images
    scale: float = 1.0  # the factor on token vectors

    @property
    def vocab(self) -> int:
        """The number of ids with vectors."""
        return self.token.num_embeddings

    def static(self, tokens: Tensor) -> Tensor:
        """The vectors of tokens alone, without positions and segments."""
        return self.token(tokens)

    def layout_of(self, tokens: Tensor, layout: Layout) -> Layout:
        """The layout of the vectors; default: one vector for each token."""
        return layout

    def resampled(self, other: "EmbeddingModule") -> dict[str, Tensor]:
        """Weights resized for another embedding of the same class: position grids of images."""
        return {}
