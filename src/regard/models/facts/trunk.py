"""A trunk: an embedding and a stack of layers over it."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import nn

from regard.ground.checks import check_whole
from regard.ground.errors import BadInput
from regard.models.build.features import (
    FeaturedTrunk,
    FeatureEmbedding,
    FrozenLayers,
    FrozenPieceLayers,
)
from regard.models.facts.bilm import BiLMStack
from regard.models.facts.checks import at_least, one_of, share
from regard.models.facts.conv import ConvEncoderFacts
from regard.models.facts.embedding import AnyEmbedding, Characters, Patches, Tokens
from regard.models.facts.flops import Products
from regard.models.facts.rnn import CausalRNNFacts, RNNDecoderFacts, RNNEncoderFacts
from regard.models.facts.stack import Stack
from regard.models.facts.two_stream import TwoStreamStack

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
        """Vectors of words fill what the features leave of that width."""
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

    embed: Tokens | Characters | Patches
    stack: (
        Stack
        | TwoStreamStack
        | RNNEncoderFacts
        | CausalRNNFacts
        | RNNDecoderFacts
        | ConvEncoderFacts
        | BiLMStack
    )
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
