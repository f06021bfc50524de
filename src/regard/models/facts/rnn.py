"""Facts of recurrent encoders, language models and decoders."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

from regard.ground.errors import BadInput
from regard.models.build.causal_rnn import CausalRNNModule
from regard.models.build.encoders import RNNEncoderModule
from regard.models.build.rnn_decoder import RNNDecoderModule
from regard.models.facts.checks import at_least, one_of, share
from regard.models.facts.embedding import AnyEmbedding
from regard.models.facts.flops import Products, score_products
from regard.models.facts.stack import AnyStack
from regard.models.sites import AttentionSite
from regard.parts.dropout import RowDropout, TokenDropout
from regard.parts.recurrent.bridge import KINDS as BRIDGES
from regard.parts.recurrent.bridge import Bridge
from regard.parts.recurrent.fused_rnn import FROZEN
from regard.parts.recurrent.rnn import DIRECTIONS, KERNELS, NOTHING, PARTS, RNNLayer, RNNStack
from regard.parts.recurrent.rnn_attention import SCORES, Attentional, Maxout, RNNAttention

TIMINGS = ("previous", "current")
INITIAL = ("zero", "learned")
GATES = {"rnn": 1, "gru": 3, "lstm": 4}


@dataclass(frozen=True)
class AnyRNN(AnyStack):
    """Layers of one cell ("rnn", "gru", "lstm") with states of size ``width``.

    ``embedding`` is the size of token vectors. ``dropout`` falls on embeddings, between layers and
    on the output.
    """

    eager: ClassVar[bool] = True
    width: int
    embedding: int
    depth: int = 1
    cell: str = "lstm"
    residual: bool = False
    dropout: float = 0.0

    def __post_init__(self) -> None:
        for name in ("width", "embedding", "depth"):
            at_least(1, name, getattr(self, name))
        share("dropout", self.dropout)
        one_of(KERNELS, "cell", self.cell)

    @property
    def takes_rectangles(self) -> bool:
        return self.cell in FROZEN

    @property
    def input_width(self) -> int:
        return self.embedding

    @property
    def final_states(self) -> int:
        return self.depth

    def _layers(
        self, inputs: int, direction: str = "forward", joined: Mapping[int, int] = NOTHING
    ) -> RNNStack:
        return RNNStack(
            self.cell,
            inputs,
            self.width,
            self.depth,
            reads=direction,
            residual=self.residual,
            dropout=self.dropout,
            joined=joined,
        )

    def _gate_products(self, inputs: int, directions: int = 1) -> int:
        """All gates; a layer above the first reads both directions of the one below."""
        above = (self.depth - 1) * (directions * self.width + self.width)
        return directions * GATES[self.cell] * self.width * (inputs + self.width + above)


@dataclass(frozen=True)
class RNNEncoderFacts(AnyRNN):
    """A recurrent encoder; its ``direction`` is "forward", "backward" or "both"."""

    joins_features: ClassVar[bool] = True
    direction: str = "forward"

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of(DIRECTIONS, "direction", self.direction)

    @property
    def bidirectional(self) -> bool:
        return self.direction == "both"

    @property
    def output_width(self) -> int:
        return 2 * self.width if self.bidirectional else self.width

    def build(self, embed: AnyEmbedding, source: AnyStack | None = None) -> RNNEncoderModule:
        """Recurrent layers over that embedding."""
        built = embed.build(self.input_width, self.dropout)
        layers = self._layers(self.embedding, self.direction, embed.joined)
        return RNNEncoderModule(built, layers)

    def products(self, source: AnyStack | None = None) -> Products:
        """The gates of all layers."""
        return Products(self._gate_products(self.embedding, self._directions))

    def joined_products(self, size: int) -> int:
        """The gates of one layer."""
        return self._directions * GATES[self.cell] * self.width * size

    @property
    def _directions(self) -> int:
        return 2 if self.bidirectional else 1


@dataclass(frozen=True)
class CausalRNNFacts(AnyRNN):
    """The recurrent layers of a language model, whose ``initial`` state is "zero" or "learned".

    ``last_width`` is the size of the states of the last layer, default ``width``. ``dropout`` falls
    on the output, and on the input and between layers unless ``input_dropout`` and
    ``hidden_dropout`` say otherwise. ``locked``: all tokens of a row have one mask (Gal &
    Ghahramani, 2016). ``weight_drop`` falls on the weights from state to state (Merity et al.,
    2017). With ``bptt``, gradients go through the last so many tokens of a row, and those before
    them are read without (Howard & Ruder, 2018).
    """

    carries_state: ClassVar[bool] = True
    last_width: int | None = None
    initial: str = "zero"
    input_dropout: float | None = None
    hidden_dropout: float | None = None
    locked: bool = False
    weight_drop: float = 0.0
    bptt: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("last_width", "bptt"):
            at_least(1, name, getattr(self, name))
        one_of(INITIAL, "initial", self.initial)
        for name in ("input_dropout", "hidden_dropout", "weight_drop"):
            share(name, getattr(self, name) or 0.0)
        if self.residual and self.output_width != self.width:
            raise BadInput("residual: all layers but the first add to states of one size")

    @property
    def output_width(self) -> int:
        return self.last_width or self.width

    @property
    def state_widths(self) -> tuple[int, ...]:
        return (self.embedding, *[self.width] * (self.depth - 1), self.output_width)

    @property
    def causal(self) -> bool:
        return True

    @property
    def _sizes(self) -> list[tuple[int, int]]:
        """The size of the input and of the states of each layer."""
        return [*pairwise(self.state_widths)]

    def build(self, embed: AnyEmbedding, source: AnyStack | None = None) -> CausalRNNModule:
        """Recurrent layers over that embedding."""
        before = (self.input_dropout, self.hidden_dropout, self.dropout)
        rates = [self.dropout if rate is None else rate for rate in before]
        drop = RowDropout if self.locked else TokenDropout
        return CausalRNNModule(
            embed.build(self.input_width, 0.0),
            [RNNLayer(self.cell, *sizes, weight_drop=self.weight_drop) for sizes in self._sizes],
            [drop(rate) for rate in rates],
            residual=self.residual,
            learned=self.initial == "learned",
            bptt=self.bptt,
        )

    def products(self, source: AnyStack | None = None) -> Products:
        """The gates of all layers."""
        gates = (GATES[self.cell] * width * (inputs + width) for inputs, width in self._sizes)
        return Products(sum(gates))


@dataclass(frozen=True)
class CrossAttentionFacts:
    """How a recurrent decoder attends to its source.

    ``timing`` "previous": the previous state is the query, and the context enters the next state
    (Bahdanau et al., 2014). "current": the current state is the query, and the context joins it in
    h̃ = tanh(W[c; h]) (Luong et al., 2015), which is an input of the next step with
    ``input_feeding``. ``inner`` is the size inside the additive score (default: the width),
    ``positions`` the number of positions of the location score.
    """

    score: str
    timing: str = "current"
    input_feeding: bool = False
    inner: int | None = None
    positions: int = 128

    def __post_init__(self) -> None:
        one_of(SCORES, "score", self.score)
        one_of(TIMINGS, "timing", self.timing)
        for name in ("inner", "positions"):
            at_least(1, name, getattr(self, name))
        if self.input_feeding and self.attends_before:
            raise BadInput("input_feeding: with timing 'previous' the context enters every step")

    @property
    def attends_before(self) -> bool:
        """Whether the previous state is the query."""
        return self.timing == "previous"


@dataclass(frozen=True)
class RNNDecoderFacts(AnyRNN):
    """A recurrent decoder; its ``bridge`` from the source is "copy", "last", "backward" or "mean".

    ``summary``: every step reads the source as one vector (Cho et al., 2014). ``maxout`` is the
    size of a layer between (state, last token, context) and the next token.
    """

    bridge: str = "copy"
    summary: bool = False
    attention: CrossAttentionFacts | None = None
    maxout: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of(BRIDGES, "bridge", self.bridge)
        at_least(1, "maxout", self.maxout)
        if self.summary and self.attention is not None:
            raise BadInput("summary: a decoder reads one vector of its source, or attends to it")

    @property
    def output_width(self) -> int:
        return self.width if self.maxout is None else self.maxout

    @property
    def decodes(self) -> bool:
        return True

    def build(self, embed: AnyEmbedding, source: AnyStack | None = None) -> RNNDecoderModule:
        """Recurrent layers over that embedding, and a bridge from that source."""
        assert source is not None
        self._check_bridge(source)
        states, attention = source.output_width, self.attention
        context = states if self._attends_before else 0
        cross = combine = maxout = None
        if attention is not None:
            sizes = {"inner": attention.inner or self.width, "positions": attention.positions}
            cross = RNNAttention(self.width, states, attention.score, **sizes)
            combine = None if self._attends_before else Attentional(states, self.width)
        if self.maxout is not None:
            read = self.width if self.summary else context
            maxout = Maxout(self.width + self.embedding + read, self.maxout)
        return RNNDecoderModule(
            embed.build(self.input_width, self.dropout),
            Bridge(self.bridge, states, self.cell, self.width, self.depth, summarises=self.summary),
            self._layers(self.embedding + self._carried + context),
            cross=cross,
            combine=combine,
            maxout=maxout,
            input_feeding=attention is not None and attention.input_feeding,
            dropout=self.dropout,
        )

    def products(self, source: AnyStack | None = None) -> Products:
        """Gates, bridge, attention and readout."""
        assert source is not None
        width, states, attention = self.width, source.output_width, self.attention
        context = states if self._attends_before else 0
        token = self._gate_products(self.embedding + self._carried + context)
        if self.maxout is not None:
            read = context or (width if self.summary else 0)
            token += (width + self.embedding + read) * 2 * self.maxout
        row = self._bridge_products(states)
        if attention is None:
            return Products(token, row=row)
        if not self._attends_before:
            token += (states + width) * width
        inner = attention.inner or width
        query, key, pair = score_products(
            attention.score, width, states, inner, attention.positions
        )
        return Products(token + query, key, row, cross_pair=pair + states)

    def cross_attention(self, side: str) -> AttentionSite | None:
        """One layer with one head, if it attends to its source."""
        site = AttentionSite(side, "cross", (1,), f"{side}.cross")
        return None if self.attention is None else site

    @property
    def _attends_before(self) -> bool:
        return self.attention is not None and self.attention.attends_before

    @property
    def _carried(self) -> int:
        """The size of the vector that every step reads beside its token."""
        feeds = self.attention is not None and self.attention.input_feeding
        return self.width if self.summary or feeds else 0

    def _bridge_products(self, states: int) -> int:
        read = states // 2 if self.bridge == "backward" else states
        summary = read * self.width if self.summary else 0
        if self.bridge == "copy":
            return summary
        return summary + (self.width if self.summary else read) * (
            self.depth * PARTS[self.cell] * self.width
        )

    def _check_bridge(self, source: AnyStack) -> None:
        if self.bridge == "backward" and not source.bidirectional:
            raise ValueError("bridge 'backward' needs a bidirectional encoder")
        if self.bridge != "copy":
            return
        if source.output_width != self.width:
            sizes = f"{source.output_width} and {self.width}"
            raise ValueError(f"bridge 'copy' needs states of one size, not {sizes}")
        if source.final_states not in (0, self.depth):
            layers = f"{source.final_states} and {self.depth}"
            raise ValueError(f"bridge 'copy' needs as many layers, not {layers}")
