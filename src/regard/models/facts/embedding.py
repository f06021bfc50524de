"""Facts of embeddings: what the first layer of a trunk adds up for each token."""

from dataclasses import dataclass

from regard.models.facts.checks import at_least, share
from regard.models.facts.positions import Position
from regard.parts.embed import Embedding


@dataclass(frozen=True)
class Tokens:
    """Token, position and segment vectors, of the width that the stack reads.

    ``scaled`` multiplies token vectors by √width; ``normed`` adds a layer norm. With
    ``embedding_size`` all vectors have that size instead, and a linear layer maps their sum to the
    width of the stack (factorised embeddings: Lan et al., 2019, section 3.1). The dropout on their
    sum is that of the stack, or else ``embedding_dropout``.
    """

    vocab: int
    position: Position | None
    segments: int = 0
    scaled: bool = False
    normed: bool = False
    embedding_size: int | None = None
    embedding_dropout: float | None = None

    def __post_init__(self) -> None:
        at_least(1, "vocab", self.vocab)
        at_least(0, "segments", self.segments)
        at_least(1, "embedding_size", self.embedding_size)
        share("embedding_dropout", self.embedding_dropout or 0.0)

    @property
    def limit(self) -> int | None:
        """The most tokens of a row, where positions are learned."""
        return None if self.position is None else self.position.limit

    def build(self, width: int, dropout: float, eps: float = 1e-5) -> Embedding:
        """The embedding for a stack that reads vectors of that size."""
        size = self.embedding_size or width
        return Embedding(
            self.vocab,
            size,
            position=None if self.position is None else self.position.build(size),
            segments=self.segments,
            scaled=self.scaled,
            norm=eps if self.normed else None,
            dropout=dropout if self.embedding_dropout is None else self.embedding_dropout,
            projected=None if self.embedding_size is None else width,
        )

    def products(self, width: int) -> int:
        """Products for each token: those of the projection."""
        return 0 if self.embedding_size is None else self.embedding_size * width
