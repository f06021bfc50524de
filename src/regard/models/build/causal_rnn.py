"""Recurrent layers of a language model: from left to right, with a state that can be carried.

The state goes from one row to the next of the same text, so that a model that is trained on parts
of it (truncated backpropagation through time) reads all of it.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from regard.ground.layout import Layout
from regard.ground.tape import NULL_TAPE, NullTape
from regard.models.build.rnn_decoder import RNNDecoderState
from regard.parts.attention import EncoderOutput
from regard.parts.embeddings.embed import Embedding
from regard.parts.kv_cache import RNNState
from regard.parts.recurrent.rnn import PARTS, RNNLayer, State, without_autocast
from regard.parts.recurrent.static_rnn_state import StatefulDecoder, StaticRNNState
from regard.parts.recurrent.truncated_bptt import TruncatedRows


class CarriedRNNState(NamedTuple):
    """The state of each layer, and which rows begin a text: ``begins_B1`` is 1 for those, else 0.

    The states of rows that begin are zeros: a learned initial state is added to them.
    """

    begins_B1: Tensor
    layers: tuple[State, ...]


class InitialState(nn.Module):
    """A learned state of every layer before the first token of a text."""

    def __init__(self, layers: Sequence[RNNLayer]):
        super().__init__()
        self.layers = nn.ParameterList(
            nn.Parameter(torch.zeros(PARTS[layer.cell], layer.width)) for layer in layers
        )

    def forward(self, state: CarriedRNNState) -> tuple[State, ...]:
        """The states of all rows, with this one where a text begins."""
        pairs = zip(state.layers, self.layers, strict=True)
        return tuple(
            tuple(
                part_BD + state.begins_B1 * begin_D
                for part_BD, begin_D in zip(parts, begin_PD, strict=True)
            )
            for parts, begin_PD in pairs
        )


class CausalRNNModule(StatefulDecoder):
    """An embedding, and recurrent layers over it, each with dropout before it.

    ``dropout`` are functions of tokens and their layout: before the first layer, before each other
    one, and after the last. With ``bptt``, gradients go through the last so many tokens of a row.
    """

    attends, capturable = False, True

    def __init__(
        self,
        embed: Embedding,
        layers: Sequence[RNNLayer],
        dropout: Sequence[Callable[[Tensor, Layout], Tensor]],
        *,
        residual: bool = False,
        learned: bool = False,
        bptt: int | None = None,
    ):
        super().__init__()
        self.embed, self.layers, self.residual = embed, nn.ModuleList(layers), residual
        self.input_dropout, self.hidden_dropout, self.output_dropout = dropout
        self.initial = InitialState(layers) if learned else None
        self.bptt = bptt

    @property
    def dtype(self) -> torch.dtype:
        """The precision of the recurrent weights."""
        return next(self.layers.parameters()).dtype

    def new_state(self, rows: int) -> CarriedRNNState:
        """That of rows which have read nothing."""
        weight = next(self.layers.parameters())
        layers: Sequence[Any] = list(self.layers)
        zeros = ((weight.new_zeros(rows, layer.width),) * PARTS[layer.cell] for layer in layers)
        return CarriedRNNState(weight.new_ones(rows, 1), tuple(zeros))

    def start(self, cache: StaticRNNState, source: None) -> None:
        """The state before the first token."""
        cache.start(RNNDecoderState(self._initial(self.new_state(cache.sentences)), None))

    def forward(
        self,
        tokens_T: Tensor,
        layout: Layout,
        *,
        source: None = None,
        state: CarriedRNNState | None = None,
        cache: RNNState | None = None,
        tape: NullTape = NULL_TAPE,
    ) -> EncoderOutput:
        """A state for every token, from ``state`` on or the state in the cache."""
        x_TD = tape("embed.output", self.embed(tokens_T, layout))
        with without_autocast(x_TD):
            x_TD = self.input_dropout(x_TD.to(self.dtype), layout)
            states_TD, ends = self._layers(x_TD, layout, self._begin(layout, state, cache), tape)
        if cache is not None:
            cache.current = RNNDecoderState(ends, None)
            cache.advance(layout)
        carried = None
        if state is not None:
            carried = CarriedRNNState(torch.zeros_like(state.begins_B1), tuple(ends))
        return EncoderOutput(
            tape("output", self.output_dropout(states_TD, layout)),
            layout,
            ends,
            state=carried,
            undropped_TD=states_TD,
        )

    def _layers(
        self, x_TD: Tensor, layout: Layout, begin: Sequence[State], tape: NullTape
    ) -> tuple[Tensor, list[State]]:
        """The states of the last layer, and the final states of all."""
        ends, truncated = [], None
        if self.training and self.bptt is not None and layout.longest > self.bptt:
            truncated = TruncatedRows.of(layout, self.bptt)
        for number, layer in enumerate(self.layers):
            given_TD = self.hidden_dropout(x_TD, layout) if number else x_TD
            if truncated is None:
                states_TD, end = layer(given_TD, layout, begin[number])
            else:
                states_TD, end = truncated.run(cast(RNNLayer, layer), given_TD, begin[number])
            x_TD = x_TD + states_TD if number and self.residual else states_TD
            x_TD = tape.under("blocks").under(number)("output", x_TD)
            ends.append(end)
        return x_TD, ends

    def _begin(
        self, layout: Layout, state: CarriedRNNState | None, cache: RNNState | None
    ) -> Sequence[State]:
        """The state in the cache, else the carried one, else that of the beginning of a text."""
        if cache is not None and cache.current is not None:
            return cache.current.states
        return self._initial(self.new_state(layout.rows) if state is None else state)

    def _initial(self, state: CarriedRNNState) -> Sequence[State]:
        """With the learned state where a text begins, if there is one."""
        return state.layers if self.initial is None else self.initial(state)
