"""Features of words: layers of a frozen model beside the vectors or states of a trunk."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.core.errors import BadInput
from regard.core.layout import Layout
from regard.core.tape import NULL_TAPE, NullTape
from regard.layers.attention import EncoderOutput
from regard.layers.block import LAYER_NORM, Norm
from regard.layers.dropout import Dropout
from regard.models.characters import ExtendedEmbedding
from regard.models.embedding import AnyEmbedding
from regard.models.facts import at_least, one_of, share
from regard.models.trunk import AnyFeatures, AnyStack, StackModule, Trunk

BETWEEN = "between"
PLACES = {"input": ("input",), "output": ("output",), "both": ("input", "output")}
LAYERS = ("all", "top")


@dataclass(frozen=True)
class Features(AnyFeatures):
    """The layers of a frozen model as features of words (Peters et al., 2018, section 3.3).

    Features are added beside the word vectors (``at`` "input"), beside the last states ("output")
    or both, or beside the states after layer ``at`` (Peters et al., 2017). "all" ``layers`` are
    mixed, with weights for each place, or the "top" one is used. A model of subwords, such as the
    encoder of a translator, reads the first ``pieces`` of a word and averages their states (McCann
    et al., 2017).
    """

    model: Trunk
    at: str | int = "input"
    layers: str = "all"
    feature_dropout: float = 0.5
    pieces: int | None = None

    def __post_init__(self) -> None:
        if not self.joined:
            one_of(PLACES, "place of features", str(self.at))
        one_of(LAYERS, "layers of features", self.layers)
        share(self, "feature_dropout")
        at_least(1, self, "pieces")
        if not self.model.ids_per_token and self.pieces is None:
            raise BadInput(
                "the model reads subwords; set pieces, the number of subwords per word",
                key="features",
            )
        if not self.model.ids_per_token and self.model.embed.limit is not None:
            raise BadInput(
                "a model over subwords with learned positions is not supported", key="features"
            )
        if self.layers == "all" and not self.model.stack.layers_alike:
            raise BadInput(
                'layers of different sizes cannot be mixed; set features_layers = "top"',
                key="features",
            )

    @property
    def ids_per_word(self) -> int:
        return sum(self.model.ids_per_token) or self.pieces or 0

    @property
    def places(self) -> tuple[str, ...]:
        """The places of the features: "input", "output" or "between" layers."""
        return PLACES.get(str(self.at), (BETWEEN,))

    @property
    def joined(self) -> dict[int, int]:
        return {self.at: self.model.width} if isinstance(self.at, int) else {}

    def width_at(self, place: str) -> int:
        return self.model.width if place in self.places else 0

    def build(self, embed: AnyEmbedding, stack: AnyStack) -> "FeaturedTrunk":
        words = FeatureTokens(embed, self.ids_per_word, self.width_at("input"), self.joined)
        blocks = [f"blocks.{number}.output" for number in range(self.model.stack.depth)]
        layers = ["embed.output", *blocks] if self.layers == "all" else ["output"]
        kind = FrozenLayers if self.model.ids_per_token else FrozenPieceLayers
        inner, frozen = stack.build(words), kind(self.model.build(), layers)
        trunk = FeaturedTrunk(inner, frozen, self.places, [*self.joined], self.feature_dropout)
        trunk.of_texts = stack.segments > 0
        return trunk


@dataclass(frozen=True)
class FeatureTokens(AnyEmbedding):
    """Embedding of words with ``size`` features concatenated to each vector."""

    words: AnyEmbedding
    ids: int
    size: int
    joined: Mapping[int, int] = field(default_factory=dict)

    def build(self, width: int, dropout: float, norm: Norm = LAYER_NORM) -> "FeatureEmbedding":
        if width <= self.size:
            raise BadInput(
                f"embedding: a width of {width} for words and features leaves no room for "
                f"{self.size} features"
            )
        words = self.words.build(width - self.size, dropout, norm)
        return FeatureEmbedding(words, self.ids)


class FeaturedTrunk(StackModule):
    """A trunk over words with features at its "input", its "output" or "between" its layers.

    Each place has its own mixture of layers, with dropout; ``joined`` are the layers whose input
    features join. With ``of_texts``, the frozen model reads each text of a row alone.
    """

    of_texts: bool = False

    def __init__(
        self,
        inner: StackModule,
        frozen: "FrozenLayers",
        places: Sequence[str],
        joined: Sequence[int],
        dropout: float,
    ):
        super().__init__()
        self.inner = inner
        self.frozen, self.joined = frozen, joined
        self.mixes = nn.ModuleDict({place: ScalarMix(len(frozen.layers)) for place in places})
        self.dropout = Dropout(dropout)
        self.attends = self.capturable = inner.attends

    @property
    def embed(self) -> "FeatureEmbedding":  # type: ignore[override]
        """The embedding of words."""
        return cast(FeatureEmbedding, self.inner.embed)

    def forward(
        self, tokens_TC: Tensor, layout: Layout, *, tape: NullTape = NULL_TAPE, **more: object
    ) -> EncoderOutput:
        """Compute a state for every word; ``more`` are arguments that only some trunks have."""
        if tokens_TC.ndim == 1:  # there are no words
            tokens_TC = tokens_TC[:, None].expand(-1, *self.embed.ids_per_token)
        layers = self.frozen(tokens_TC[:, 1:], layout.texts if self.of_texts else layout)
        mixed = {place: self.dropout(mix(layers)) for place, mix in self.mixes.items()}
        words = WordsWithFeatures(self.embed.word_ids(tokens_TC), mixed.get("input"))
        if self.joined:
            more["joined"] = dict.fromkeys(self.joined, mixed["between"])
        encoded = self.inner(words, layout, tape=tape, **more)
        if "output" not in mixed:
            return encoded
        parts = [encoded.states_TD, mixed["output"].to(encoded.states_TD.dtype)]
        states_TD = tape("features.output", torch.cat(parts, dim=-1))
        return encoded._replace(states_TD=states_TD, ends=None)


class FrozenLayers(nn.Module):
    """A frozen trunk that returns the states of ``layers``, named by tape paths."""

    def __init__(self, trunk: StackModule, layers: list[str]):
        super().__init__()
        self.trunk, self.layers = trunk.requires_grad_(False).eval(), layers

    def train(self, mode: bool = True) -> "FrozenLayers":
        """Stay in evaluation mode: a frozen trunk has no dropout."""
        return super().train(False)

    @torch.no_grad()
    def forward(self, tokens_TC: Tensor, layout: Layout) -> list[Tensor]:
        tape = LayerTape(NULL_TAPE)
        self.trunk(tokens_TC, layout, tape=tape)
        return [tape.outputs[layer] for layer in self.layers]


class FrozenPieceLayers(FrozenLayers):
    """Frozen layers of a trunk over subwords: the mean over the pieces of each word.

    Piece ids are shifted by one, so that 0 is padding. Words without pieces get zeros.
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


class WordsWithFeatures(NamedTuple):
    """The ids of words (and of their characters), and the features at the input, if any."""

    tokens: Tensor
    features_TD: Tensor | None


class FeatureEmbedding(ExtendedEmbedding):
    """Word vectors concatenated with their features, [x; features]."""

    def word_ids(self, tokens_TC: Tensor) -> Tensor:
        """Ids that the word embedding reads: word ids, with character ids if it reads these."""
        return tokens_TC if self.words.ids_per_token else tokens_TC[:, 0]

    def static(self, tokens_TC: Tensor) -> Tensor:
        return self.words.static(self.word_ids(tokens_TC))

    def forward(
        self, inputs: WordsWithFeatures, layout: Layout, tape: NullTape = NULL_TAPE
    ) -> Tensor:
        inner = tape.under("words")
        x_TD = inner("output", self.words(inputs.tokens, layout, inner))
        if inputs.features_TD is None:
            return x_TD
        features_TD = tape("features", inputs.features_TD.to(x_TD.dtype))
        return torch.cat([x_TD, features_TD], dim=-1)


class ScalarMix(nn.Module):
    """Scalar mix γ Σ_j softmax(w)_j h_j of states h_j of several layers; initially their mean."""

    def __init__(self, layers: int):
        super().__init__()
        self.layers = layers
        self.logits = nn.Parameter(torch.zeros(layers))
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, layers: Sequence[Tensor], tape: NullTape = NULL_TAPE) -> Tensor:
        """Mix states of the same size."""
        shares = tape("weights", torch.softmax(self.logits.float(), dim=0))
        mixed = sum(
            (share * states for share, states in zip(shares, layers, strict=True)),
            start=layers[0].new_zeros(()),
        )
        return (self.scale * mixed).to(layers[0].dtype)


class LayerTape(NullTape):
    """A tape that passes values on to another tape and keeps the outputs of layers.

    ``outputs`` has the values called "output", by their path under the module.
    """

    def __init__(self, tape: NullTape, path: str = "", outputs: dict[str, Tensor] | None = None):
        self.tape, self.path = tape, path
        self.outputs: dict[str, Tensor] = {} if outputs is None else outputs

    @property
    def live(self) -> bool:  # type: ignore[override]
        return self.tape.live

    def __call__(self, name: str, value: Tensor) -> Tensor:
        value = self.tape(name, value)
        if (full := self.path + name).endswith("output"):
            self.outputs[full] = value
        return value

    def under(self, place: str | int) -> "LayerTape":
        return LayerTape(self.tape.under(place), f"{self.path}{place}.", self.outputs)

    def wants(self, *names: str) -> bool:
        return self.tape.wants(*names)
