"""Facts of embeddings: what the first layer of a trunk adds up for each token."""

from dataclasses import dataclass

from regard.models.facts.checks import at_least
from regard.models.facts.positions import Position
from regard.parts.embed import Embedding


@dataclass(frozen=True)
class Tokens:
    """Token, position and segment vectors.

    ``scaled`` multiplies token vectors by √width; ``normed`` adds a layer norm.
    """

    vocab: int
    position: Position | None
    segments: int = 0
    scaled: bool = False
    normed: bool = False

    def __post_init__(self) -> None:
        at_least(1, "vocab", self.vocab)
        at_least(0, "segments", self.segments)

    @property
    def limit(self) -> int | None:
        """The most tokens of a row, where positions are learned."""
        return None if self.position is None else self.position.limit

    def build(self, width: int, dropout: float, eps: float = 1e-5) -> Embedding:
        """The embedding of vectors of that size."""
        return Embedding(
            self.vocab,
            width,
            position=None if self.position is None else self.position.build(width),
            segments=self.segments,
            scaled=self.scaled,
            norm=eps if self.normed else None,
            dropout=dropout,
        )
