"""Embeddings: token, position and segment vectors, added up."""

import math
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from regard.ground.layout import Layout
from regard.parts.dropout import Dropout


class EmbeddingModule(nn.Module):
    """What every embedding can be asked, and the answers of most."""

    position_limit: int | None = None  # the most tokens of a row, if positions are learned
    segments: int = 0
    ids_per_token: tuple[int, ...] = ()
    token: Any  # the vectors of ids
    scale: float = 1.0  # what these are multiplied by where they are read

    @property
    def vocab(self) -> int:
        """How many ids have vectors."""
        return self.token.num_embeddings

    def layout_of(self, tokens: Any, layout: Layout) -> Layout:
        """The layout of its vectors: by default one for each token."""
        return layout

    def resampled(self, other: Any) -> dict[str, Tensor]:
        """The weights that another embedding of its kind has in another shape, in that shape."""
        return {}


class Embedding(EmbeddingModule):
    """token (× √d) + position (+ segment), optional layer norm, dropout, optional projection.

    ``word_dropout`` drops the vectors of a token everywhere in a batch.

    ``width`` is the size of the vectors; a linear layer maps their sum to ``projected`` numbers
    (Lan et al., 2019, section 3.1).
    """

    def __init__(
        self,
        vocab: int,
        width: int,
        *,
        position: Any = None,
        segments: int = 0,
        scaled: bool = False,
        norm: float | None = None,
        dropout: float = 0.0,
        projected: int | None = None,
        word_dropout: float = 0.0,
    ):
        super().__init__()
        self.token = nn.Embedding(vocab, width)
        nn.init.normal_(self.token.weight, std=1 / math.sqrt(width))
        self.scale = math.sqrt(width) if scaled else 1.0
        self.position = position
        self.position_limit = None if position is None else position.limit
        self.segments = segments
        self.segment = nn.Embedding(segments, width) if segments else None
        self.norm = nn.LayerNorm(width, eps=norm) if norm is not None else None
        self.dropout, self.word_dropout = Dropout(dropout), Dropout(word_dropout)
        self.projection = None if projected is None else nn.Linear(width, projected)

    def static(self, tokens_T: Tensor) -> Tensor:
        """The vectors of tokens alone, without positions and segments."""
        return self.token(tokens_T)

    def forward(self, tokens_T: Tensor, layout: Layout) -> Tensor:
        x_TD = self.token(tokens_T)
        if self.scale != 1.0:
            x_TD = x_TD * self.scale
        if self.training and self.word_dropout.rate:
            mask_V = self.word_dropout(x_TD.new_ones(self.token.num_embeddings))
            x_TD = x_TD * mask_V[tokens_T, None]
        if self.position is not None:
            x_TD = x_TD + self.position(layout).to(x_TD.dtype)
        if self.segment is not None:
            assert layout.segments_T is not None
            few = _few if x_TD.is_cuda else F.embedding
            x_TD = x_TD + few(layout.segments_T, self.segment.weight)
        if self.norm is not None:
            x_TD = self.norm(x_TD)
        x_TD = self.dropout(x_TD)
        return x_TD if self.projection is None else self.projection(x_TD)


def _few(numbers_T: Tensor, vectors_ND: Tensor) -> Tensor:
    """A lookup in a small table, whose gradient is one sum over tokens for each entry.

    On CUDA an ordinary lookup adds gradients token by token, and thousands wait for one address.
    """
    parts = (
        (numbers_T == number)[:, None] * vector_D
        for number, vector_D in enumerate(vectors_ND.unbind())
    )
    return sum(parts, start=vectors_ND.new_zeros(()))
