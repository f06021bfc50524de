"""Recurrent decoders: a bridge from the source, attention, input feeding, maxout."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from regard.core.errors import BadFact, BadInput
from regard.core.layout import Layout
from regard.core.tape import NULL_TAPE, NullTape
from regard.layers.attention import EncoderOutput
from regard.layers.dropout import Dropout
from regard.layers.kv_cache import RNNState
from regard.layers.recurrent.bridge import KINDS as BRIDGES
from regard.layers.recurrent.bridge import Bridge
from regard.layers.recurrent.rnn import PARTS, without_autocast
from regard.layers.recurrent.rnn_attention import (
    SCORES,
    Attentional,
    Maxout,
    RNNAttention,
    SourceKeyValues,
)
from regard.layers.recurrent.static_rnn_state import StatefulDecoder, StaticRNNState
from regard.layers.recurrent.unrolled_tape import UnrolledTape
from regard.models.attention_site import AttentionSite
from regard.models.embedding import AnyEmbedding
from regard.models.facts import at_least, one_of
from regard.models.macs import MACs, score_macs
from regard.models.rnn import AnyRNN, RNNDecoderState
from regard.models.trunk import AnyStack, StackModule

TIMINGS = ("previous", "current")


@dataclass(frozen=True)
class CrossAttentionFacts:
    """The attention of a recurrent decoder to its source.

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
        at_least(1, self, "inner", "positions")
        if self.input_feeding and self.attends_before:
            raise BadFact("input_feeding", "cannot be used with timing 'previous'; use 'current'")

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
        at_least(1, self, "maxout")
        if self.summary and self.attention is not None:
            raise BadInput("summary and attention cannot be used together; remove one")

    @property
    def output_width(self) -> int:
        return self.width if self.maxout is None else self.maxout

    @property
    def decodes(self) -> bool:
        return True

    def build(self, embed: AnyEmbedding, source: AnyStack | None = None) -> "RNNDecoderModule":
        assert source is not None
        self._check_bridge(source)
        return RNNDecoderModule(self, embed, source)

    def macs(self, source: AnyStack | None = None) -> MACs:
        assert source is not None
        width, states, attention = self.width, source.output_width, self.attention
        context = states if self.attends_before else 0
        token = self._gate_macs(self.embedding + self.carried + context)
        if self.maxout is not None:
            read = context or (width if self.summary else 0)
            token += (width + self.embedding + read) * 2 * self.maxout
        row = self._bridge_products(states)
        if attention is None:
            return MACs(token, row=row)
        if not self.attends_before:
            token += (states + width) * width
        inner = attention.inner or width
        query, key, pair = score_macs(attention.score, width, states, inner, attention.positions)
        return MACs(token + query, key, row, cross_pair=pair + states)

    def cross_attention(self, side: str) -> AttentionSite | None:
        site = AttentionSite(side, "cross", (1,), f"{side}.cross")
        return None if self.attention is None else site

    @property
    def attends_before(self) -> bool:
        return self.attention is not None and self.attention.attends_before

    @property
    def carried(self) -> int:
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
            raise ValueError(
                f"bridge 'copy' needs encoder and decoder states of the same size, not {sizes}"
            )
        if source.final_states not in (0, self.depth):
            layers = f"{source.final_states} and {self.depth}"
            raise ValueError(
                f"bridge 'copy' needs encoder and decoder of the same depth, not {layers}"
            )


class RNNDecoderModule(StatefulDecoder, StackModule):
    """An embedding, recurrent layers that start from the bridge, attention and readout.

    ``cross`` attends to the source before each state, or after it if there is ``combine``.
    """

    capturable = True

    def __init__(self, facts: RNNDecoderFacts, embed: AnyEmbedding, source: AnyStack):
        super().__init__()
        width, states, attention = facts.width, source.output_width, facts.attention
        context = states if facts.attends_before else 0
        cross = combine = maxout = None
        if attention is not None:
            sizes = {"inner": attention.inner or width, "positions": attention.positions}
            cross = RNNAttention(width, states, attention.score, **sizes)
            combine = None if facts.attends_before else Attentional(states, width)
        if facts.maxout is not None:
            read = width if facts.summary else context
            maxout = Maxout(width + facts.embedding + read, facts.maxout)
        self.attends_before = facts.attends_before
        self.input_feeding = attention is not None and attention.input_feeding
        self.embed = embed.build(facts.input_width, facts.dropout)
        layers = (facts.cell, width, facts.depth)
        self.bridge = Bridge(facts.bridge, states, *layers, summarises=facts.summary)
        self.layers = facts.build_layers(facts.embedding + facts.carried + context)
        self.cross, self.combine, self.maxout = cross, combine, maxout
        self.dropout = Dropout(facts.dropout)

    def start(self, cache: StaticRNNState, source: EncoderOutput) -> None:
        """Fill a cache with the first state and the keys and values of the source."""
        cache.start(self._first(source))
        if self.cross is not None:
            with without_autocast(source.states_TD):
                cache.write_source(*self.cross.keys(source.to(self.layers.dtype)))

    def forward(
        self,
        tokens_T: Tensor,
        layout: Layout,
        *,
        source: EncoderOutput | None,
        cache: RNNState | None = None,
        tape: NullTape = NULL_TAPE,
    ) -> EncoderOutput:
        """Compute the state that predicts the next token, for every target token."""
        x_TD = tape("embed.output", self.embed(tokens_T, layout, tape.under("embed")))
        now = self._begin(source, cache, tape)
        if cache is not None or self.attends_before or self.input_feeding:
            with without_autocast(x_TD):
                x_TD = x_TD.to(self.layers.dtype)
                states_TD, seen_TD = self._unrolled(x_TD, layout, now, source, cache, tape)
        else:
            assert source is not None
            states_TD, seen_TD = self._at_once(x_TD, layout, now, source, tape)
        if self.maxout is not None:
            parts = [part for part in (states_TD, x_TD, seen_TD) if part is not None]
            states_TD = tape("maxout", self.maxout(torch.cat(parts, dim=-1)))
        return EncoderOutput(tape("output", self.dropout(states_TD)), layout)

    def _begin(
        self, source: EncoderOutput | None, cache: RNNState | None, tape: NullTape
    ) -> RNNDecoderState:
        """The state in the cache, else the state from the bridge."""
        if cache is not None and cache.current is not None:
            return cache.current
        assert source is not None
        now = self._first(source, tape)
        return now if cache is None else cache.start(now)

    def _first(self, source: EncoderOutput, tape: NullTape = NULL_TAPE) -> RNNDecoderState:
        """The state of the bridge."""
        states, told_BD = self.bridge(source, tape=tape.under("bridge"))
        told_BD = torch.zeros_like(states[-1][0]) if self.input_feeding else told_BD
        return RNNDecoderState(states, told_BD).to(self.layers.dtype)

    def _at_once(
        self,
        x_TD: Tensor,
        layout: Layout,
        now: RNNDecoderState,
        source: EncoderOutput,
        tape: NullTape,
    ) -> tuple[Tensor, Tensor | None]:
        """Compute all tokens in one call: states (or h̃), and the vector that every step reads."""
        told_TD = None if now.told_RD is None else now.told_RD[layout.rows_T]
        if told_TD is not None:
            x_TD = torch.cat([x_TD, told_TD], dim=-1)
        states_TD, _ = self.layers(x_TD, layout, now.states, tape=tape.under("blocks"))
        if self.cross is not None and self.combine is not None:
            of_cross = tape.under("cross")
            keys = self.cross.keys(source, of_cross)
            seen_TD = self.cross(states_TD, layout, keys, tape=of_cross)
            states_TD = tape("combined", self.combine(states_TD, seen_TD))
        return states_TD, told_TD

    def _unrolled(
        self,
        x_TD: Tensor,
        layout: Layout,
        now: RNNDecoderState,
        source: EncoderOutput | None,
        cache: RNNState | None,
        tape: NullTape,
    ) -> tuple[Tensor, Tensor | None]:
        """Compute states step by step; ragged rows are dropped at their end."""
        steps, keys = _steps(x_TD, layout), None
        if self.cross is not None:
            read = None if source is None else source.to(self.layers.dtype)
            cached = None if cache is None else cache.under(0)
            keys = self.cross.source_key_values(read, cached, tape.under("cross"))
        if not layout.even:
            now = now.rows(steps.order_B)
            keys = None if keys is None else keys.ordered(steps.order_B)
        one_each = layout  # of one token in each row, at positions of their own
        if layout.start is not None:
            one_each = Layout.rectangle(layout.rows, 1, x_TD.device, start=layout.start)
        record = UnrolledTape(tape, layout)
        states, seen, ended = [], [], []
        rows = layout.rows
        for time, x_RD in enumerate(steps.inputs):
            alive = len(x_RD)
            if alive < rows:
                ended.append(now.rows(slice(alive, rows)))
                rows = alive
            now, keys = now.rows(slice(alive)), None if keys is None else keys.first(alive)
            queries = one_each.first(alive).later(time)
            moment = record.at(steps.order_B[:alive], time)
            state_RD, seen_RD, now = self._step(x_RD, now, keys, queries, moment)
            states.append(state_RD)
            seen += [] if seen_RD is None else [seen_RD]
        if cache is not None:
            if not layout.even:
                now = RNNDecoderState.join([now, *reversed(ended)])
                now = now.rows(steps.order_B.argsort())
            cache.current = now
            cache.advance(layout)
        return steps.pack(states), steps.pack(seen) if seen else None

    def _step(
        self,
        x_RD: Tensor,
        now: RNNDecoderState,
        keys: SourceKeyValues | None,
        queries: Layout,
        tape: NullTape,
    ) -> tuple[Tensor, Tensor | None, RNNDecoderState]:
        """The next state (or h̃), the source vector for maxout, and the state to carry on."""
        told_RD = seen_RD = now.told_RD
        inputs = [x_RD] if told_RD is None else [x_RD, told_RD]
        if self.attends_before and self.cross is not None and keys is not None:
            seen_RD = self.cross(now.states[-1][0], queries, keys, tape=tape.under("cross"))
            inputs.append(seen_RD)
        inputs_RD, blocks = torch.cat(inputs, dim=-1), tape.under("blocks")
        state_RD, states = self.layers.step(inputs_RD, now.states, blocks)
        if self.combine is not None and self.cross is not None and keys is not None:
            context_RD = self.cross(state_RD, queries, keys, tape=tape.under("cross"))
            state_RD = tape("combined", self.combine(state_RD, context_RD))
            seen_RD = None  # h̃ has it already
        return (
            state_RD,
            seen_RD,
            RNNDecoderState(states, state_RD if self.input_feeding else told_RD),
        )


class Steps(NamedTuple):
    """The inputs of each time step, with rows in an ``order``, and the packing of outputs."""

    order_B: Tensor
    inputs: Sequence[Tensor]
    pack: Callable[[list[Tensor]], Tensor]


def _steps(x_TD: Tensor, layout: Layout) -> Steps:
    """Time steps: all rows of a rectangle, with padding; the unfinished rows of a ragged batch."""
    if layout.even and layout.longest:
        order_B = torch.arange(layout.rows, device=x_TD.device)
        inputs = layout.pad(x_TD).unbind(1)
        return Steps(order_B, inputs, lambda outputs: layout.pack(torch.stack(outputs, 1)))
    time_major = layout.time_major
    # Where no row has a token, a step on nothing still has gradients.
    inputs = time_major.from_packed(x_TD).split(time_major.alive or (0,))
    return Steps(
        time_major.order_B, inputs, lambda outputs: time_major.to_packed(torch.cat([*outputs]))
    )
