"""Word vectors from characters: convolutions, highway layers, a projection (ELMo's)."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.core.errors import BadFact, BadInput
from regard.core.layout import Layout
from regard.core.tape import NULL_TAPE, NullTape
from regard.layers.activation import ACTIVATIONS
from regard.layers.block import LAYER_NORM, Norm
from regard.layers.dropout import Dropout
from regard.models.embedding import AnyEmbedding, EmbeddingModule
from regard.models.facts import at_least, one_of

WORDS = 1_024  # words at once without gradients, to save memory: each character has all filters


@dataclass(frozen=True)
class Characters(AnyEmbedding):
    """Word vectors from characters: convolutions, highway layers and a projection (ELMo's).

    A token is the ids of ``longest`` characters, each embedded in ``character_size`` dimensions.
    ``filters`` are pairs (width of a filter in characters, number of such filters). ``vocab``
    counts bytes and the ids of word and sentence boundaries and padding. If not ``projected``, the
    size of a word vector is the number of filters.
    """

    filters: tuple[tuple[int, int], ...]
    vocab: int = 261
    longest: int = 50
    character_size: int = 16
    highways: int = 2
    character_activation: str = "relu"
    projected: bool = True

    def __post_init__(self) -> None:
        at_least(1, self, "vocab", "longest", "character_size")
        at_least(0, self, "highways")
        one_of(ACTIVATIONS, "activation", self.character_activation)
        if not self.filters:
            raise BadFact("filters", "is empty: a word vector needs at least one filter")
        for filter in self.filters:
            if len(filter) != 2 or min(filter) < 1:
                raise BadInput(
                    f"{filter} must be (characters, number of filters), both at least 1",
                    key="filters",
                )
            if filter[0] > self.longest:
                read = f"{filter[0]} characters, above longest ({self.longest})"
                raise BadInput(f"the width of {filter} is {read}", key="filters")

    @property
    def ids_per_token(self) -> tuple[int, ...]:
        return (self.longest,)

    @property
    def characters_per_word(self) -> int:
        return self.longest

    @property
    def all_filters(self) -> int:
        """The number of filters."""
        return sum(count for _, count in self.filters)

    def build(self, width: int, dropout: float, norm: Norm = LAYER_NORM) -> "CharacterEmbedding":
        if not self.projected and width != (total := self.all_filters):
            raise BadInput(
                f"{total} filters, but the width is {width}; set projected = true", key="filters"
            )
        return CharacterEmbedding(self, width, dropout)

    def macs(self, width: int) -> int:
        filters = sum(
            (self.longest - reach + 1) * reach * count * self.character_size
            for reach, count in self.filters
        )
        total = self.all_filters
        projection = total * width if self.projected else 0
        return filters + self.highways * 2 * total * total + projection


class CharacterEmbedding(EmbeddingModule):
    """Word embedding computed from a fixed number of characters per word.

    The maximum of each filter over the word goes through an activation, highway layers and, if
    projected, a linear layer with ``width`` outputs.
    """

    def __init__(self, words: Characters, width: int, dropout: float):
        super().__init__()
        size, total = words.character_size, words.all_filters
        self.ids_per_token = words.ids_per_token
        self.token = nn.Embedding(words.vocab, size)
        nn.init.uniform_(self.token.weight, -1.0, 1.0)
        self.filters = nn.ModuleList(
            nn.Conv1d(size, count, reach) for reach, count in words.filters
        )
        self.highways = nn.ModuleList(Highway(total) for _ in range(words.highways))
        self.projection = nn.Linear(total, width) if words.projected else None
        if self.projection is not None:
            nn.init.normal_(self.projection.weight, std=total**-0.5)
            nn.init.zeros_(self.projection.bias)
        self.activation = ACTIVATIONS[words.character_activation]
        self.dropout = Dropout(dropout)

    def forward(self, characters_TC: Tensor, layout: Layout, tape: NullTape = NULL_TAPE) -> Tensor:
        """Compute a vector for each word from its character ids; padding words have a single id."""
        if characters_TC.ndim == 1:
            characters_TC = characters_TC[:, None].expand(-1, *self.ids_per_token)
        if tape.live and tape.wants(*self.terms):  # of all words, not of distinct ones
            return self.dropout(self._vectors(characters_TC, tape))
        if not _sizes_may_vary(characters_TC):
            return self.dropout(self.static(characters_TC))
        words_NC, at_T = distinct_words(characters_TC)
        return self.dropout(self.static(words_NC)[at_T])

    @property
    def terms(self) -> list[str]:
        """Names on a tape."""
        projection = [] if self.projection is None else ["projection"]
        return ["filters", *(f"highway.{i}" for i in range(len(self.highways))), *projection]

    def static(self, characters_TC: Tensor) -> Tensor:
        at_once = len(characters_TC) if torch.is_grad_enabled() else WORDS
        parts = [self._vectors(part_NC) for part_NC in characters_TC.split(max(1, at_once))]
        return torch.cat(parts)

    def _vectors(self, characters_NC: Tensor, tape: NullTape = NULL_TAPE) -> Tensor:
        x_NDC = self.token(characters_NC).transpose(1, 2)
        x_ND = torch.cat([self.activation(layer(x_NDC).amax(-1)) for layer in self.filters], -1)
        x_ND = tape("filters", x_ND)
        for number, layer in enumerate(self.highways):
            x_ND = tape(f"highway.{number}", layer(x_ND))
        return x_ND if self.projection is None else tape("projection", self.projection(x_ND))


def distinct_words(characters_TC: Tensor) -> tuple[Tensor, Tensor]:
    """The distinct words of a batch, and the index of each word among them."""
    if characters_TC.is_cuda:
        return distinct_by_hash(characters_TC)
    return characters_TC.unique(dim=0, return_inverse=True)


def distinct_by_hash(characters_TC: Tensor) -> tuple[Tensor, Tensor]:
    """The distinct words of a batch, compared by a hash of 64 bits, and then by their characters.

    If two words had the same hash, every word would count as distinct.
    """
    draw = torch.Generator().manual_seed(0)
    factors_C = torch.randint(2**62, characters_TC.shape[1:], generator=draw)
    hashes_T = (characters_TC * factors_C.to(characters_TC.device)).sum(1)
    distinct_N, at_T = hashes_T.unique(return_inverse=True)
    words_NC = characters_TC.new_empty(len(distinct_N), characters_TC.shape[1])
    words_NC[at_T] = characters_TC
    if torch.equal(words_NC[at_T], characters_TC):
        return words_NC, at_T
    return characters_TC, torch.arange(len(characters_TC), device=characters_TC.device)


def _sizes_may_vary(x: Tensor) -> bool:
    """Whether sizes may depend on values: not in a graph, and not on the meta device."""
    in_graph = torch.compiler.is_compiling() or torch.jit.is_tracing()
    return not (in_graph or x.is_meta or (x.is_cuda and torch.cuda.is_current_stream_capturing()))


class ExtendedEmbedding(EmbeddingModule):
    """Base class of embeddings that concatenate other features to each word vector.

    A token is a word id followed by ``ids`` ids of its characters, or pieces.
    """

    def __init__(self, words: EmbeddingModule, ids: int):
        super().__init__()
        self.words, self.ids_per_token = words, (1 + ids,)
        self.position_limit, self.segments = words.position_limit, words.segments
        self.scale = words.scale

    @property
    def token(self) -> nn.Embedding:
        """The embedding table of words."""
        return self.words.token


class SpelledEmbedding(ExtendedEmbedding):
    """Word vector concatenated with a vector from the word's characters (Ma & Hovy, 2016)."""

    def __init__(self, words: EmbeddingModule, characters: CharacterEmbedding):
        super().__init__(words, sum(characters.ids_per_token))
        self.characters = characters

    def forward(self, tokens_TC: Tensor, layout: Layout, tape: NullTape = NULL_TAPE) -> Tensor:
        """Compute a vector for each word; padding words have a single id."""
        if tokens_TC.ndim == 1:
            tokens_TC = tokens_TC[:, None].expand(-1, *self.ids_per_token)
        of_words, of_characters = tape.under("words"), tape.under("characters")
        words_TD = self.words(tokens_TC[:, 0], layout, of_words)
        spelled_TD = self.characters(tokens_TC[:, 1:], layout, of_characters)
        parts = of_words("output", words_TD), of_characters("output", spelled_TD)
        return torch.cat(parts, dim=-1)

    def static(self, tokens_TC: Tensor) -> Tensor:
        parts = self.words.static(tokens_TC[:, 0]), self.characters.static(tokens_TC[:, 1:])
        return torch.cat(parts, dim=-1)


class Highway(nn.Module):
    """Highway layer g · relu(W x) + (1 - g) · x, where g = σ(V x) (Srivastava et al., 2015)."""

    def __init__(self, width: int):
        super().__init__()
        self.transform, self.gate = nn.Linear(width, width), nn.Linear(width, width)
        for layer in (self.transform, self.gate):
            nn.init.normal_(layer.weight, std=width**-0.5)
        nn.init.zeros_(self.transform.bias)
        nn.init.constant_(self.gate.bias, -2.0)  # mostly closed: a new layer copies its input

    def forward(self, x_ND: Tensor) -> Tensor:
        new_ND, gate_ND = self.transform(x_ND).relu(), self.gate(x_ND).sigmoid()
        return torch.lerp(x_ND, new_ND.to(x_ND.dtype), gate_ND.to(x_ND.dtype))  # under autocast
