"""Features of words: the layers of a frozen model, mixed, beside word vectors or states."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.ground.layout import Layout
from regard.ground.tape import NULL_TAPE, LayerTape, NullTape
from regard.parts.attention import EncoderOutput
from regard.parts.dropout import Dropout
from regard.parts.embeddings.embed import EmbeddingModule
from regard.parts.scalar_mix import ScalarMix


class WordsWithFeatures(NamedTuple):
    """The ids of words (and of their characters), and features, if the embedding has any."""

    tokens: Tensor
    features_TD: Tensor | None


class FeatureEmbedding(EmbeddingModule):
    """[x; features]: the vectors of words and their features, side by side.

    A token is the id of a word and so many ``ids`` of its characters, or pieces.
    """

    def __init__(self, words: Any, ids: int):
        super().__init__()
        self.words = words
        self.ids_per_token = (1 + ids,)
        self.position_limit, self.segments = words.position_limit, words.segments
        self.scale = words.scale

    @property
    def token(self) -> nn.Embedding:
        """The vectors of words."""
        return self.words.token

    def word_ids(self, tokens_TC: Tensor) -> Tensor:
        """The ids that vectors of words are read by: of each word, perhaps of its characters."""
        return tokens_TC if self.words.ids_per_token else tokens_TC[:, 0]

    def static(self, tokens_TC: Tensor) -> Tensor:
        """The vectors of words alone."""
        return self.words.static(self.word_ids(tokens_TC))

    def forward(self, given: WordsWithFeatures, layout: Layout) -> Tensor:
        x_TD = self.words(given.tokens, layout)
        if given.features_TD is None:
            return x_TD
        return torch.cat([x_TD, given.features_TD.to(x_TD.dtype)], dim=-1)


class FrozenLayers(nn.Module):
    """A trunk that is never trained: the states of its ``layers``, by their paths."""

    def __init__(self, trunk: nn.Module, layers: list[str]):
        super().__init__()
        self.trunk, self.layers = trunk.requires_grad_(False).eval(), layers

    def train(self, mode: bool = True) -> "FrozenLayers":
        """It has no dropout in training either."""
        return super().train(False)

    @torch.no_grad()
    def forward(self, tokens_TC: Tensor, layout: Layout) -> list[Tensor]:
        tape = LayerTape(NULL_TAPE)
        self.trunk(tokens_TC, layout, tape=tape)
        return [tape.outputs[layer] for layer in self.layers]


class FrozenPieceLayers(FrozenLayers):
    """The same of a trunk whose tokens are pieces of words: the mean over the pieces of each.

    Ids are one higher than those of the trunk, and 0 is no piece. A word without pieces has zeros.
    """

    @torch.no_grad()
    def forward(self, pieces_TC: Tensor, layout: Layout) -> list[Tensor]:
        real_TC = pieces_TC > 0
        counts_T = real_TC.sum(1)
        ends = F.pad(counts_T.cumsum(0), (1, 0))[layout.offsets.long()]
        pieces = Layout.ragged(ends.diff().tolist(), pieces_TC.device)
        return [
            _mean_of_words(states_ND, real_TC)
            for states_ND in super().forward(pieces_TC[real_TC] - 1, pieces)
        ]


def _mean_of_words(states_ND: Tensor, real_TC: Tensor) -> Tensor:
    """The mean state of the pieces of each word."""
    padded_TCD = states_ND.new_zeros(*real_TC.shape, states_ND.shape[-1])
    padded_TCD[real_TC] = states_ND
    return padded_TCD.sum(1) / real_TC.sum(1, keepdim=True).clamp(min=1)


class FeaturedTrunk(nn.Module):
    """A trunk over words, with features at its "input", its "output" or "between" its layers.

    Each place has a mixture of its own, which ``dropout`` falls on; features between layers join
    the input of the layers of these numbers.
    """

    def __init__(
        self,
        inner: nn.Module,
        frozen: FrozenLayers,
        places: Sequence[str],
        joined: Sequence[int],
        dropout: float,
    ):
        super().__init__()
        self.inner: Any = inner
        self.frozen, self.joined = frozen, joined
        self.mixes = nn.ModuleDict({place: ScalarMix(len(frozen.layers)) for place in places})
        self.dropout = Dropout(dropout)

    @property
    def embed(self) -> FeatureEmbedding:
        """The embedding of words."""
        return self.inner.embed

    @property
    def attends(self) -> bool:
        """Whether the trunk is blocks of attention."""
        return self.inner.attends

    @property
    def capturable(self) -> bool:
        """Whether decoding from it can be captured: as far as its trunk is blocks of attention."""
        return self.inner.attends

    def forward(
        self, tokens_TC: Tensor, layout: Layout, *, tape: NullTape = NULL_TAPE, **more: Any
    ) -> EncoderOutput:
        """A state for every word; ``more`` is what only a trunk of that kind is given."""
        layers = self.frozen(tokens_TC[:, 1:], layout)
        mixed = {place: self.dropout(mix(layers)) for place, mix in self.mixes.items()}
        given = WordsWithFeatures(self.embed.word_ids(tokens_TC), mixed.get("input"))
        if self.joined:
            more["joined"] = dict.fromkeys(self.joined, mixed["between"])
        encoded = self.inner(given, layout, tape=tape, **more)
        if "output" not in mixed:
            return encoded
        parts = [encoded.states_TD, mixed["output"].to(encoded.states_TD.dtype)]
        states_TD = tape("features.output", torch.cat(parts, dim=-1))
        return encoded._replace(states_TD=states_TD, ends=None)
