"""A trunk: an embedding and a stack of layers over it, perhaps with features of a frozen model."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.ground.checks import check_whole
from regard.ground.errors import BadInput
from regard.ground.layout import Layout
from regard.ground.tape import NULL_TAPE, LayerTape, NullTape
from regard.models.embedding import AnyEmbedding, EmbeddingModule
from regard.models.facts import at_least, one_of, share
from regard.models.stack import AnyStack, Products
from regard.parts.attention import EncoderOutput
from regard.parts.dropout import Dropout


class ScalarMix(nn.Module):
    """γ Σ_j softmax(w)_j h_j over so many layers; at first their mean."""

    def __init__(self, layers: int):
        super().__init__()
        self.layers = layers
        self.logits = nn.Parameter(torch.zeros(layers))
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, layers: Sequence[Tensor]) -> Tensor:
        """The mixture of states of the same size."""
        shares = torch.softmax(self.logits.float(), dim=0)
        mixed = sum(
            (share * states for share, states in zip(shares, layers, strict=True)),
            start=layers[0].new_zeros(()),
        )
        return (self.scale * mixed).to(layers[0].dtype)


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


BETWEEN = "between"
PLACES = {"input": ("input",), "output": ("output",), "both": ("input", "output")}
LAYERS = ("all", "top")


@dataclass(frozen=True)
class Features:
    """The layers of a frozen model as features of words (Peters et al., 2018, section 3.3).

    They stand beside the word vectors that a stack reads (``at`` "input"), beside its states
    ("output") or both, or beside the states after layer ``at`` (Peters et al., 2017). "all"
    ``layers`` are mixed, at each place by weights of its own, or the "top" one is used. ``dropout``
    falls on them. A model whose tokens are pieces, such as a translator's encoder, reads the first
    ``pieces`` of a word, whose states are averaged (McCann et al., 2017).
    """

    model: "Trunk"
    at: str | int = "input"
    layers: str = "all"
    feature_dropout: float = 0.5
    pieces: int | None = None

    def __post_init__(self) -> None:
        if not self.joined:
            one_of(PLACES, "place of features", str(self.at))
        one_of(LAYERS, "layers of features", self.layers)
        share("feature_dropout", self.feature_dropout)
        at_least(1, "pieces", self.pieces)
        if not self.model.ids_per_token and self.pieces is None:
            raise BadInput("features: the model reads pieces of words: say how many (pieces)")
        if not self.model.ids_per_token and self.model.embed.limit is not None:
            raise BadInput("features: the model knows too few positions for the pieces of any row")
        if self.layers == "all" and not self.model.stack.layers_alike:
            raise BadInput(
                'features: layers of different sizes cannot be mixed; set features_layers = "top"'
            )

    @property
    def ids_per_word(self) -> int:
        """How many ids of a word the model reads: those of its characters, or of its pieces."""
        return sum(self.model.ids_per_token) or self.pieces or 0

    @property
    def places(self) -> tuple[str, ...]:
        """Where they stand: "input", "output" or "between" layers."""
        return PLACES.get(str(self.at), (BETWEEN,))

    @property
    def joined(self) -> dict[int, int]:
        """How many numbers they add to the input of a layer above the first, by its number."""
        return {self.at: self.model.width} if isinstance(self.at, int) else {}

    def width_at(self, place: str) -> int:
        """How many numbers they add to a vector at that place."""
        return self.model.width if place in self.places else 0

    def build(self, inner: nn.Module) -> FeaturedTrunk:
        """That module with these features."""
        blocks = [f"blocks.{number}.output" for number in range(self.model.stack.depth)]
        layers = ["embed.output", *blocks] if self.layers == "all" else ["output"]
        kind = FrozenLayers if self.model.ids_per_token else FrozenPieceLayers
        frozen = kind(self.model.build(), layers)
        return FeaturedTrunk(inner, frozen, self.places, [*self.joined], self.feature_dropout)


@dataclass(frozen=True)
class FeatureTokens(AnyEmbedding):
    """The word vectors of a stack beside whose vectors there are ``size`` features."""

    words: AnyEmbedding
    ids: int
    size: int
    joined: Mapping[int, int] = field(default_factory=dict)

    def build(self, width: int, dropout: float, eps: float = 1e-5) -> FeatureEmbedding:
        if width <= self.size:
            raise BadInput(
                f"embedding: {width} numbers, of words and features, have no room for "
                f"{self.size} features"
            )
        words = self.words.build(width - self.size, dropout, eps)
        return FeatureEmbedding(words, self.ids)


@dataclass(frozen=True)
class Trunk:
    """Tokens in, one state per token out: a whole encoder, or one side of a translator.

    With ``features``, tokens are words, and a frozen model adds to their vectors or states.
    """

    embed: AnyEmbedding
    stack: AnyStack
    features: Features | None = None

    def __post_init__(self) -> None:
        position = self.embed.position
        if position is not None and position.by_distance and not self.stack.attends:
            raise BadInput("position: relative positions need self-attention layers")
        characters = self.embed.characters_per_word
        if self.features is not None and characters not in (0, self.features.ids_per_word):
            raise BadInput(
                f"features: their model reads {self.features.ids_per_word} ids of a word, and the "
                f"words {characters} characters: these must be the same"
            )
        for layer in () if self.features is None else self.features.joined:
            if not self.stack.joins_features:
                raise BadInput("features: only recurrent encoders read them between layers")
            if not 1 <= layer < self.stack.depth:
                raise BadInput(
                    f"features_at: no layer is above layer {layer}; there are {self.stack.depth}"
                )

    @property
    def width(self) -> int:
        """The size of the state of a token."""
        more = 0 if self.features is None else self.features.width_at("output")
        return self.stack.output_width + more

    @property
    def ids_per_token(self) -> tuple[int, ...]:
        """The shape of the ids of a token; with features, a word and its characters, or pieces."""
        if self.features is None:
            return self.embed.ids_per_token
        return (1 + self.features.ids_per_word,)

    @property
    def spelling_vocab(self) -> int:
        """How many ids characters, or pieces, of words have, where they stand beside a word's."""
        return (
            self.embed.spelling_vocab if self.features is None else self.features.model.embed.vocab
        )

    @property
    def eager(self) -> bool:
        """Whether it is neither compiled nor captured; features are those of recurrent layers."""
        return self.stack.eager or self.features is not None

    @property
    def token_width(self) -> int:
        """The size of token vectors by which a head names tokens."""
        return self.embed.embedding_size or self.width

    @property
    def segments(self) -> int:
        """How many segments of a row it tells apart; 0 if it knows none."""
        return self.embed.segments or self.stack.segments

    def products(self, source: "Trunk | None" = None) -> Products:
        """Products of a forward pass: of the stack, and of the projection of the embedding."""
        stack = self.stack.products(None if source is None else source.stack)
        token = stack.token + self.embed.products(self.stack.input_width)
        if self.features is not None:  # which have no backward pass
            token += self.features.model.products().token // 3
            token += sum(map(self.stack.joined_products, self.features.joined.values()))
        return stack._replace(token=token)

    def layer_paths(self, path: str, prefix: str = "") -> dict[str, str]:
        """The tape path of the output of each layer, for a trunk of that path."""
        blocks = {
            f"{prefix}block {i + 1}": f"{path}.blocks.{i}.output" for i in range(self.stack.depth)
        }
        norm = {f"{prefix}final norm": f"{path}.output"} if self.stack.final_norm else {}
        return {f"{prefix}embedding": f"{path}.embed.output", **blocks, **norm}

    def state_path(self, path: str, layer: int) -> str:
        """The tape path of the states after a layer, for a trunk of that path.

        0 is the embedding, -1 what heads and decoders see.
        """
        depth = self.stack.depth
        if not -1 <= check_whole("layer", layer, -sys.maxsize) <= depth:
            raise BadInput(f"layer {layer} asked for; there are 0 (embedding) to {depth}, and -1")
        names = {-1: "output", 0: "embed.output"}
        return f"{path}.{names.get(int(layer), f'blocks.{layer - 1}.output')}"

    def build(self, source: "Trunk | None" = None) -> nn.Module:
        """The module of these facts; a decoder's depends on its source."""
        if self.features is None:
            return self.stack.build(self.embed, None if source is None else source.stack)
        size, ids = self.features.width_at("input"), self.features.ids_per_word
        embed = FeatureTokens(self.embed, ids, size, self.features.joined)
        return self.features.build(self.stack.build(embed))
