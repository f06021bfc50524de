"""A recurrent decoder, with attention or without, before its state or after it.

Where no step needs what the step before has seen, all tokens run in one call of the fused kernel;
else a loop over time runs on the rows still alive, or on all rows of a rectangle.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from regard.ground.layout import Layout
from regard.ground.tape import NULL_TAPE, NullTape, UnrolledTape
from regard.parts.attention import EncoderOutput
from regard.parts.dropout import Dropout
from regard.parts.embeddings.embed import Embedding
from regard.parts.kv_cache import RNNState
from regard.parts.recurrent.bridge import Bridge
from regard.parts.recurrent.rnn import RNNStack, State, without_autocast
from regard.parts.recurrent.rnn_attention import Attentional, Maxout, RNNAttention, SourceKeyValues
from regard.parts.recurrent.static_rnn_state import StatefulDecoder, StaticRNNState


class RNNDecoderState(NamedTuple):
    """What a decoder carries: the state of each layer, and the vector that every step is told.

    That is h̃ of the step before (input feeding) or the source in one vector, if there is any.
    """

    states: Sequence[State]
    told_RD: Tensor | None

    def rows(self, index: Tensor | slice) -> "RNNDecoderState":
        """Some of the rows, or all in another order."""
        states = [tuple(part[index] for part in state) for state in self.states]
        return RNNDecoderState(states, None if self.told_RD is None else self.told_RD[index])

    @classmethod
    def join(cls, parts: "Sequence[RNNDecoderState]") -> "RNNDecoderState":
        """The rows of several states, one after the other."""
        layers = zip(*(part.states for part in parts), strict=True)
        states = [tuple(map(torch.cat, zip(*layer, strict=True))) for layer in layers]
        told = [part.told_RD for part in parts if part.told_RD is not None]
        return cls(states, torch.cat(told) if told else None)

    @property
    def tensors(self) -> list[Tensor]:
        """All of it, in one order."""
        told = [] if self.told_RD is None else [self.told_RD]
        return [*(part for state in self.states for part in state), *told]

    def to(self, dtype: torch.dtype) -> "RNNDecoderState":
        """The same in that precision."""
        states = [tuple(part.to(dtype) for part in state) for state in self.states]
        return RNNDecoderState(states, None if self.told_RD is None else self.told_RD.to(dtype))


class RNNDecoderModule(StatefulDecoder):
    """An embedding, recurrent layers over it that start from the bridge, and the readout.

    ``cross`` attends to the source: before the state, unless its context is to ``combine`` with it.
    """

    attends, capturable = False, True

    def __init__(
        self,
        embed: Embedding,
        bridge: Bridge,
        layers: RNNStack,
        *,
        cross: RNNAttention | None = None,
        combine: Attentional | None = None,
        maxout: Maxout | None = None,
        input_feeding: bool = False,
        dropout: float = 0.0,
    ):
        super().__init__()
        self.attends_before = cross is not None and combine is None
        self.input_feeding = input_feeding
        self.embed, self.bridge, self.layers = embed, bridge, layers
        self.cross, self.combine, self.maxout = cross, combine, maxout
        self.dropout = Dropout(dropout)

    def start(self, cache: StaticRNNState, source: EncoderOutput) -> None:
        """The state before the first token, and the keys and values of the source."""
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
        """The state that the next token is read from, for every token of the target."""
        x_TD = tape("embed.output", self.embed(tokens_T, layout))
        now = self._begin(source, cache)
        if cache is not None or self.attends_before or self.input_feeding:
            with without_autocast(x_TD):
                x_TD = x_TD.to(self.layers.dtype)
                states_TD, seen_TD = self._unrolled(x_TD, layout, now, source, cache, tape)
        else:
            assert source is not None
            states_TD, seen_TD = self._at_once(x_TD, layout, now, source, tape)
        if self.maxout is not None:
            given = [one for one in (states_TD, x_TD, seen_TD) if one is not None]
            states_TD = self.maxout(torch.cat(given, dim=-1))
        return EncoderOutput(tape("output", self.dropout(states_TD)), layout)

    def _begin(self, source: EncoderOutput | None, cache: RNNState | None) -> RNNDecoderState:
        """The state in the cache, or that of the bridge."""
        if cache is not None and cache.current is not None:
            return cache.current
        assert source is not None
        now = self._first(source)
        return now if cache is None else cache.start(now)

    def _first(self, source: EncoderOutput) -> RNNDecoderState:
        """The state of the bridge."""
        states, told_BD = self.bridge(source)
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
        """All tokens in one call: a state (or h̃) for each, and the one vector all were told."""
        told_TD = None if now.told_RD is None else now.told_RD[layout.rows_T]
        if told_TD is not None:
            x_TD = torch.cat([x_TD, told_TD], dim=-1)
        states_TD, _ = self.layers(x_TD, layout, now.states, tape=tape.under("blocks"))
        if self.cross is not None and self.combine is not None:
            keys = self.cross.keys(source)
            seen_TD = self.cross(states_TD, layout, keys, tape=tape.under("cross"))
            states_TD = self.combine(states_TD, seen_TD)
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
        """The same step by step; ragged rows that have ended leave from the end of the order.

        Rows of a rectangle go on into its padding: with a cache they have none.
        """
        steps, keys = _steps(x_TD, layout), None
        if self.cross is not None:
            read = None if source is None else source.to(self.layers.dtype)
            keys = self.cross.source_key_values(read, None if cache is None else cache.under(0))
        if not layout.even:
            now = now.rows(steps.order_B)
            keys = None if keys is None else keys.ordered(steps.order_B)
        one_each = layout  # of one token in each row, at positions of their own
        if layout.start is not None:
            one_each = Layout.rectangle(layout.rows, 1, x_TD.device, start=layout.start)
        record = UnrolledTape(tape.under("cross"), layout.rows, layout.longest)
        states, seen, ended = [], [], []
        rows = layout.rows
        for time, x_RD in enumerate(steps.inputs):
            alive = len(x_RD)
            if alive < rows:
                ended.append(now.rows(slice(alive, rows)))
                rows = alive
            now, keys = now.rows(slice(alive)), None if keys is None else keys.first(alive)
            queries = one_each.first(alive).later(time)
            moment = record.at(time, steps.order_B[:alive])
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
        """The next state (or h̃), what of the source maxout reads with it, and what goes on."""
        told_RD = seen_RD = now.told_RD
        given = [x_RD] if told_RD is None else [x_RD, told_RD]
        if self.attends_before and self.cross is not None and keys is not None:
            seen_RD = self.cross(now.states[-1][0], queries, keys, tape=tape)
            given.append(seen_RD)
        state_RD, states = self.layers.step(torch.cat(given, dim=-1), now.states)
        if self.combine is not None and self.cross is not None and keys is not None:
            state_RD = self.combine(state_RD, self.cross(state_RD, queries, keys, tape=tape))
            seen_RD = None  # h̃ has it already
        return (
            state_RD,
            seen_RD,
            RNNDecoderState(states, state_RD if self.input_feeding else told_RD),
        )


class Steps(NamedTuple):
    """The inputs of each time, of rows in an ``order``, and how outputs are packed again."""

    order_B: Tensor
    inputs: Sequence[Tensor]
    pack: Callable[[list[Tensor]], Tensor]


def _steps(x_TD: Tensor, layout: Layout) -> Steps:
    """All rows of a rectangle at every time, padding too; of ragged rows those that go on."""
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
