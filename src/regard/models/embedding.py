"""Embeddings: base classes of values and modules, and learned positions."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

from torch import Tensor, nn

from regard.ground.layout import Layout
from regard.models.facts import at_least


class AnyPosition:
    """Base class of positions; if ``by_distance``, attention scores depend on them instead."""

    by_distance: ClassVar[bool] = False

    @property
    def limit(self) -> int | None:
        """The maximum number of tokens of a row; None: no limit."""
        return None

    def score(self, key: int) -> nn.Module | None:
        """The score of attention with keys of that size; None: the default score."""
        return None


@dataclass(frozen=True)
class Learned(AnyPosition):
    """A learned vector for each position; the first ``offset`` vectors are not used."""

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
    """The table of learned position vectors."""

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
    """Base class of embeddings, with the defaults of one without positions and segments."""

    reads_images: ClassVar[bool] = False
    vocab: int = 0  # how many ids it knows
    position: AnyPosition | None = None
    segments: int = 0
    embedding_size: int | None = None
    prefix_tokens: int | None = None  # before each row; None: those of the tokenizer
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

    @property
    def spelling_vocab(self) -> int:
        """The number of ids of characters that are read beside the id of a word."""
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
    token: Any  # the vectors of ids: an nn.Embedding, or None of images
    scale: float = 1.0  # what these are multiplied by where they are read

    @property
    def vocab(self) -> int:
        """How many ids have vectors."""
        return self.token.num_embeddings

    def static(self, tokens: Tensor) -> Tensor:
        """The vectors of tokens alone, without positions and segments."""
        return self.token(tokens)

    def layout_of(self, tokens: Tensor, layout: Layout) -> Layout:
        """The layout of its vectors: by default one for each token."""
        return layout

    def resampled(self, other: "EmbeddingModule") -> dict[str, Tensor]:
        """The weights that another embedding of its kind has in another shape, in that shape."""
        return {}
