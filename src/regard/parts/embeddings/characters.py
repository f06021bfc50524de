"""Words from their characters: convolutions, highway layers, a projection (Kim et al., 2015)."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from regard.ground.layout import Layout
from regard.parts.dropout import Dropout
from regard.parts.embeddings.embed import Embedding, EmbeddingModule

WORDS = 1_024  # at once, without gradients: a character has as many numbers as there are filters


class Highway(nn.Module):
    """g · relu(W x) + (1 - g) · x, where g = σ(V x) (Srivastava et al., 2015)."""

    def __init__(self, width: int):
        super().__init__()
        self.transform, self.gate = nn.Linear(width, width), nn.Linear(width, width)
        for layer in (self.transform, self.gate):
            nn.init.normal_(layer.weight, std=width**-0.5)
        nn.init.zeros_(self.transform.bias)
        nn.init.constant_(self.gate.bias, -2.0)  # mostly closed: a new layer copies its input

    def forward(self, x_ND: Tensor) -> Tensor:
        return torch.lerp(x_ND, self.transform(x_ND).relu(), self.gate(x_ND).sigmoid())


class CharacterEmbedding(EmbeddingModule):
    """The vector of a word from the vectors of its characters, as many for every word.

    ``filters`` are (characters that one reads, number of such filters). The largest output of each
    filter in the word goes through an ``activation``, highway layers and a projection to ``width``
    numbers, if there is a width.
    """

    def __init__(
        self,
        characters: int,
        size: int,
        filters: Sequence[tuple[int, int]],
        highways: int,
        width: int | None,
        *,
        longest: int,
        activation: Callable[[Tensor], Tensor],
        dropout: float = 0.0,
    ):
        super().__init__()
        self.ids_per_token = (longest,)
        self.token = nn.Embedding(characters, size)
        nn.init.uniform_(self.token.weight, -1.0, 1.0)
        self.filters = nn.ModuleList(nn.Conv1d(size, count, reach) for reach, count in filters)
        total = sum(count for _, count in filters)
        self.highways = nn.ModuleList(Highway(total) for _ in range(highways))
        self.projection = None if width is None else nn.Linear(total, width)
        if self.projection is not None:
            nn.init.normal_(self.projection.weight, std=total**-0.5)
            nn.init.zeros_(self.projection.bias)
        self.activation = activation
        self.dropout = Dropout(dropout)

    def forward(self, characters_TC: Tensor, layout: Layout) -> Tensor:
        """A vector for each word, from the ids of its characters; a word of the fill has one."""
        if characters_TC.ndim == 1:
            characters_TC = characters_TC[:, None].expand(-1, *self.ids_per_token)
        if characters_TC.device.type == "cpu":  # where finding equal words costs less than reading
            words_NC, at_T = characters_TC.unique(dim=0, return_inverse=True)
            return self.dropout(self.static(words_NC)[at_T])
        return self.dropout(self.static(characters_TC))

    def static(self, characters_TC: Tensor) -> Tensor:
        """The vectors of words, from the ids of the characters of each."""
        at_once = len(characters_TC) if torch.is_grad_enabled() else WORDS
        parts = [self._vectors(part_NC) for part_NC in characters_TC.split(max(1, at_once))]
        return torch.cat(parts)

    def _vectors(self, characters_NC: Tensor) -> Tensor:
        x_NDC = self.token(characters_NC).transpose(1, 2)
        x_ND = torch.cat([self.activation(layer(x_NDC).amax(-1)) for layer in self.filters], -1)
        for layer in self.highways:
            x_ND = layer(x_ND)
        return x_ND if self.projection is None else self.projection(x_ND)


class SpelledEmbedding(EmbeddingModule):
    """[word; characters]: the vector of a word beside one from its characters (Ma & Hovy, 2016).

    A token is the id of a word and the ids of its characters.
    """

    def __init__(self, words: Embedding, characters: CharacterEmbedding):
        super().__init__()
        self.words, self.characters = words, characters
        self.ids_per_token = (1 + sum(characters.ids_per_token),)
        self.position_limit, self.segments = words.position_limit, words.segments
        self.scale = words.scale

    @property
    def token(self) -> nn.Embedding:
        """The vectors of words."""
        return self.words.token

    def forward(self, tokens_TC: Tensor, layout: Layout) -> Tensor:
        """A vector for each word; a word of the fill has one id."""
        if tokens_TC.ndim == 1:
            tokens_TC = tokens_TC[:, None].expand(-1, *self.ids_per_token)
        parts = self.words(tokens_TC[:, 0], layout), self.characters(tokens_TC[:, 1:], layout)
        return torch.cat(parts, dim=-1)

    def static(self, tokens_TC: Tensor) -> Tensor:
        """Both vectors of each word, without positions and segments."""
        parts = self.words.static(tokens_TC[:, 0]), self.characters.static(tokens_TC[:, 1:])
        return torch.cat(parts, dim=-1)
