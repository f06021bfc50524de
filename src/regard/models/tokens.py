"""Token vectors, with positions, segments and characters."""

import math
from dataclasses import dataclass, field

import torch.nn.functional as F
from torch import Tensor, nn

from regard.core.errors import BadFact, BadInput
from regard.core.layout import Layout
from regard.core.tape import NULL_TAPE, NullTape
from regard.layers.block import LAYER_NORM, Norm
from regard.layers.dropout import Dropout
from regard.models.characters import Characters, SpelledEmbedding
from regard.models.embedding import AnyEmbedding, EmbeddingModule
from regard.models.facts import NAMED, above_zero, at_least, share
from regard.models.positions import POSITIONS, Position


@dataclass(frozen=True)
class Tokens(AnyEmbedding):
    """Token embedding: the sum of token, position and segment vectors, of the width of the stack.

    ``scaled`` multiplies token vectors by √width; ``normed`` adds a layer norm. With
    ``embedding_size``, vectors have that size, and a linear layer maps their sum to the width
    (factorised embeddings: Lan et al., 2019, section 3.1). ``embedding_dropout`` replaces the
    stack's dropout on the sum; ``word_dropout`` drops a token everywhere in a batch (Gal &
    Ghahramani, 2016). New vectors have a standard deviation of ``vector_std``, default 1/√size.
    With ``characters``, tokens are words, and a part of the width is a vector
    from their characters (Ma & Hovy, 2016).
    """

    vocab: int
    position: Position | None = field(default=None, metadata={NAMED: POSITIONS})
    segments: int = 0
    scaled: bool = False
    normed: bool = False
    embedding_size: int | None = None
    embedding_dropout: float | None = None
    word_dropout: float = 0.0
    vector_std: float | None = None
    characters: Characters | None = None

    def __post_init__(self) -> None:
        at_least(1, self, "vocab", "embedding_size")
        at_least(0, self, "segments")
        share(self, "embedding_dropout", "word_dropout")
        above_zero(self, "vector_std")
        if self.characters is not None and self.characters.projected:
            raise BadInput(
                "characters beside word vectors cannot be projected: set projected = false"
            )

    @property
    def ids_per_token(self) -> tuple[int, ...]:
        return () if self.characters is None else (1 + self.characters.longest,)

    @property
    def characters_per_word(self) -> int:
        return 0 if self.characters is None else self.characters.longest

    @property
    def spelling_vocab(self) -> int:
        return 0 if self.characters is None else self.characters.vocab

    @property
    def _beside(self) -> int:
        """The part of the width that comes from characters."""
        return 0 if self.characters is None else self.characters.all_filters

    def build(self, width: int, dropout: float, norm: Norm = LAYER_NORM) -> EmbeddingModule:
        if (own := width - self._beside) < 1:
            fault = f"the {self._beside} dimensions of characters leave none for words"
            raise BadFact("embedding", f"is {width}: {fault}")
        rate = dropout if self.embedding_dropout is None else self.embedding_dropout
        words = Embedding(self, own, rate, norm)
        if self.characters is None:
            return words
        return SpelledEmbedding(words, self.characters.build(self._beside, rate))

    def macs(self, width: int) -> int:
        characters = 0 if self.characters is None else self.characters.macs(self._beside)
        return characters + (self.embedding_size or 0) * (width - self._beside)


class Embedding(EmbeddingModule):
    """Module of ``Tokens``: token (× √d) + position (+ segment), norm, dropout, projection."""

    def __init__(self, tokens: Tokens, width: int, dropout: float, norm: Norm):
        super().__init__()
        size = tokens.embedding_size or width
        position = None if tokens.position is None else tokens.position.build(size)
        self.token = nn.Embedding(tokens.vocab, size)
        nn.init.normal_(self.token.weight, std=tokens.vector_std or 1 / math.sqrt(size))
        self.scale = math.sqrt(size) if tokens.scaled else 1.0
        self.position, self.segments = position, tokens.segments
        self.position_limit = None if tokens.position is None else tokens.position.limit
        self.segment = nn.Embedding(tokens.segments, size) if tokens.segments else None
        self.norm = norm.build(size) if tokens.normed else None
        self.dropout, self.word_dropout = Dropout(dropout), Dropout(tokens.word_dropout)
        self.projection = nn.Linear(size, width) if tokens.embedding_size else None

    def forward(self, tokens_T: Tensor, layout: Layout, tape: NullTape = NULL_TAPE) -> Tensor:
        x_TD = self.token(tokens_T)
        if self.scale != 1.0:
            x_TD = x_TD * self.scale
        if self.training and self.word_dropout.rate:
            mask_V = self.word_dropout(x_TD.new_ones(self.token.num_embeddings))
            x_TD = x_TD * mask_V[tokens_T, None]
        x_TD = tape("token", x_TD)
        if self.position is not None:
            x_TD = x_TD + tape("position", self.position(layout).to(x_TD.dtype))
        if self.segment is not None:
            assert layout.segments_T is not None
            few = _few if x_TD.is_cuda else F.embedding
            x_TD = x_TD + tape("segment", few(layout.segments_T, self.segment.weight))
        if self.norm is not None:
            x_TD = self.norm(tape("sum", x_TD))
        x_TD = self.dropout(x_TD)
        return x_TD if self.projection is None else self.projection(tape("unprojected", x_TD))


def _few(numbers_T: Tensor, vectors_ND: Tensor) -> Tensor:
    """Look up vectors in a small table, without the slow backward pass of embeddings on CUDA."""
    parts = (
        (numbers_T == number)[:, None] * vector_D
        for number, vector_D in enumerate(vectors_ND.unbind())
    )
    return sum(parts, start=vectors_ND.new_zeros(()))
