"""Facts of embeddings: what the first layer of a trunk adds up for each token."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

from regard.ground.errors import BadInput
from regard.models.facts.checks import at_least, one_of, share
from regard.models.facts.positions import Position
from regard.parts.activation import ACTIVATIONS
from regard.parts.embeddings.characters import CharacterEmbedding, SpelledEmbedding
from regard.parts.embeddings.embed import Embedding
from regard.parts.embeddings.patches import LearnedGrid, PatchEmbedding, SinusoidGrid

PREFIX_NAMES = ("class", "distillation")
GRID_POSITIONS = {"learned": LearnedGrid, "sinusoid": SinusoidGrid}


class AnyEmbedding:
    """What every embedding can be asked, and the answers of one without positions and segments."""

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
        """The shape of the ids of a token: one id, or those of its characters."""
        return ()

    @property
    def characters_per_word(self) -> int:
        """How many characters of a word it reads; 0 if it reads none."""
        return 0

    def vectors(self, length: int) -> int:
        """How many vectors a row of so many tokens becomes: by default one for each."""
        return length

    def build(self, width: int, dropout: float, eps: float = 1e-5) -> Any:
        """The embedding for a stack that reads vectors of that size."""
        raise NotImplementedError

    def products(self, width: int) -> int:
        """Products for each token."""
        raise NotImplementedError


@dataclass(frozen=True)
class Characters(AnyEmbedding):
    """Words by their characters: convolutions, highway layers, a projection (ELMo's).

    A token is the ids of ``longest`` characters, each a vector of ``character_size``. ``filters``
    are (characters that one reads, number of such filters). ``vocab`` counts bytes and the ids that
    begin and end sentences and words, and fill words up. Words that are not ``projected`` have as
    many numbers as there are filters.
    """

    filters: tuple[tuple[int, int], ...]
    vocab: int = 261
    longest: int = 50
    character_size: int = 16
    highways: int = 2
    character_activation: str = "relu"
    projected: bool = True

    def __post_init__(self) -> None:
        for name in ("vocab", "longest", "character_size"):
            at_least(1, name, getattr(self, name))
        at_least(0, "highways", self.highways)
        one_of(ACTIVATIONS, "activation", self.character_activation)
        if not self.filters:
            raise BadInput("filters: a word has no vector without any")
        for filter in self.filters:
            if len(filter) != 2 or min(filter) < 1:
                raise BadInput(f"filters: {filter} is not (characters, number), both at least 1")
            if filter[0] > self.longest:
                read = f"{filter[0]} characters, more than the {self.longest} of a word"
                raise BadInput(f"filters: {filter} reads {read}")

    @property
    def ids_per_token(self) -> tuple[int, ...]:
        return (self.longest,)

    @property
    def characters_per_word(self) -> int:
        return self.longest

    @property
    def all_filters(self) -> int:
        """Their number."""
        return sum(count for _, count in self.filters)

    def build(self, width: int, dropout: float, eps: float = 1e-5) -> CharacterEmbedding:
        """The embedding for a stack that reads vectors of that size."""
        if not self.projected and width != (total := self.all_filters):
            raise BadInput(f"filters: {total} numbers of a word, and the layers read {width}")
        return CharacterEmbedding(
            self.vocab,
            self.character_size,
            self.filters,
            self.highways,
            width if self.projected else None,
            longest=self.longest,
            activation=ACTIVATIONS[self.character_activation],
            dropout=dropout,
        )

    def products(self, width: int) -> int:
        """Filters at all characters, highway layers and the projection."""
        filters = sum(
            (self.longest - reach + 1) * reach * count * self.character_size
            for reach, count in self.filters
        )
        total = self.all_filters
        projection = total * width if self.projected else 0
        return filters + self.highways * 2 * total * total + projection


@dataclass(frozen=True)
class Tokens(AnyEmbedding):
    """Token, position and segment vectors, of the width that the stack reads.

    ``scaled`` multiplies token vectors by √width; ``normed`` adds a layer norm. With
    ``embedding_size`` all vectors have that size instead, and a linear layer maps their sum to the
    width of the stack (factorised embeddings: Lan et al., 2019, section 3.1). The dropout on their
    sum is that of the stack, or else ``embedding_dropout``; ``word_dropout`` drops all vectors of a
    token in a batch (Gal & Ghahramani, 2016). With ``characters``, tokens are words, and a vector
    from the characters of each stands beside its own (Ma & Hovy, 2016): they share the width.
    """

    vocab: int
    position: Position | None
    segments: int = 0
    scaled: bool = False
    normed: bool = False
    embedding_size: int | None = None
    embedding_dropout: float | None = None
    word_dropout: float = 0.0
    characters: Characters | None = None

    def __post_init__(self) -> None:
        at_least(1, "vocab", self.vocab)
        at_least(0, "segments", self.segments)
        at_least(1, "embedding_size", self.embedding_size)
        share("embedding_dropout", self.embedding_dropout or 0.0)
        share("word_dropout", self.word_dropout)
        if self.characters is not None and self.characters.projected:
            raise BadInput("characters: beside word vectors they are not projected")

    @property
    def ids_per_token(self) -> tuple[int, ...]:
        return () if self.characters is None else (1 + self.characters.longest,)

    @property
    def characters_per_word(self) -> int:
        return 0 if self.characters is None else self.characters.longest

    @property
    def spelling_vocab(self) -> int:  # type: ignore[override]
        return 0 if self.characters is None else self.characters.vocab

    @property
    def _beside(self) -> int:
        """How many numbers of a vector are those of characters."""
        return 0 if self.characters is None else self.characters.all_filters

    def build(self, width: int, dropout: float, eps: float = 1e-5) -> Embedding | SpelledEmbedding:
        """The embedding for a stack that reads vectors of that size."""
        if (own := width - self._beside) < 1:
            raise BadInput(
                f"embedding: {width} numbers, of words and characters, have no room for "
                f"{self._beside} of characters"
            )
        words = self._build_words(own, dropout, eps)
        if self.characters is None:
            return words
        rate = dropout if self.embedding_dropout is None else self.embedding_dropout
        return SpelledEmbedding(words, self.characters.build(self._beside, rate))

    def _build_words(self, width: int, dropout: float, eps: float) -> Embedding:
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
            word_dropout=self.word_dropout,
        )

    def products(self, width: int) -> int:
        """Products for each token: those of the projection, and of the characters."""
        own, filters = width - self._beside, self.characters
        characters = 0 if filters is None else filters.products(self._beside)
        return characters + (0 if self.embedding_size is None else self.embedding_size * own)


@dataclass(frozen=True)
class Patches(AnyEmbedding):
    """Images as patches (Dosovitskiy et al., 2020), each a vector; an image is a row.

    ``image_size`` and ``patch_size`` are the pixels on a side of a square, or height and width.
    ``prefix_tokens`` learned vectors come before the patches: one is the class token, a second
    DeiT's distillation token. ``positions`` are "learned", for images of ``image_size`` and
    interpolated for others, or "sinusoid", of rows and columns. ``normed`` adds a layer norm after
    the positions, in place of the bias of the projection, as CLIP has it (Radford et al., 2021).
    """

    reads_images: ClassVar[bool] = True
    patch_size: int | tuple[int, int] = 16
    image_size: int | tuple[int, int] = 224
    channels: int = 3
    prefix_tokens: int = 1
    positions: str = "learned"
    normed: bool = False

    def __post_init__(self) -> None:
        for name in ("patch_size", "image_size"):
            _check_sides(name, getattr(self, name))
        at_least(1, "channels", self.channels)
        at_least(0, "prefix_tokens", self.prefix_tokens)
        one_of(GRID_POSITIONS, "kind of positions", self.positions)
        for pixels, side in zip(self.image, self.patch, strict=True):
            if pixels % side:
                raise BadInput(f"image_size: {pixels} pixels are not patches of {side}")

    @property
    def image(self) -> tuple[int, int]:
        """Height and width of an image in pixels."""
        return _sides(self.image_size)

    @property
    def patch(self) -> tuple[int, int]:
        """Height and width of a patch in pixels."""
        return _sides(self.patch_size)

    @property
    def ids_per_token(self) -> tuple[int, ...]:
        return (self.channels, *self.image)

    @property
    def sizes(self) -> dict[str, int]:
        return {"channels": self.channels}

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of patches."""
        (height, width), (rows, columns) = self.image, self.patch
        return height // rows, width // columns

    @property
    def prefix_names(self) -> tuple[str, ...]:
        """The tokens before the patches, by name."""
        more = (f"token {number}" for number in range(len(PREFIX_NAMES), self.prefix_tokens))
        return (*PREFIX_NAMES[: self.prefix_tokens], *more)

    @property
    def has_distillation_token(self) -> bool:
        return self.prefix_tokens == len(PREFIX_NAMES)

    def vectors(self, length: int) -> int:
        """The prefix and the patches of each image."""
        return length * (self.prefix_tokens + self.grid[0] * self.grid[1])

    def build(self, width: int, dropout: float, eps: float = 1e-5) -> PatchEmbedding:
        """The embedding for a stack that reads vectors of that size."""
        if self.positions == "sinusoid" and width % 4:
            raise BadInput(f"positions: sinusoids need a width of 4, 8, 12, …, not {width}")
        return PatchEmbedding(
            self.patch,
            self.channels,
            width,
            prefix=self.prefix_tokens,
            position=GRID_POSITIONS[self.positions](self.grid, self.prefix_tokens, width),
            dropout=dropout,
            norm=eps if self.normed else None,
        )

    def products(self, width: int) -> int:
        """The projection of a patch."""
        return self.channels * self.patch[0] * self.patch[1] * width


def _sides(size: int | tuple[int, int]) -> tuple[int, int]:
    return (size, size) if isinstance(size, int) else size


def _check_sides(name: str, size: int | tuple[int, int]) -> None:
    """A number of pixels, or two that differ: there is one way to write a square."""
    if not isinstance(size, int) and (len(size) != 2 or size[0] == size[1]):
        raise BadInput(f"{name} is one number for a square, or height and width, not {size}")
    for side in _sides(size):
        at_least(1, name, side)
