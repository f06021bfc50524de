"""The bridge: the initial states of a recurrent decoder, from the output of an encoder."""

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.core.tape import NULL_TAPE, NullTape
from regard.layers.attention import EncoderOutput
from regard.layers.recurrent.rnn import PARTS, State


class Bridge(nn.Module):
    """Initial state of every layer of the decoder.

    "copy": the final state of the same layer of the encoder (Sutskever et al., 2014). The other
    kinds are tanh(W·summary), where the summary is a final state of the top layer ("last", of both
    directions if it has two; "backward", of the backward direction: Bahdanau et al., 2014) or the
    "mean" of its states. With ``summarises`` every step gets c = tanh(V·summary), and the initial
    states are computed from c (Cho et al., 2014).
    """

    def __init__(
        self, kind: str, source: int, cell: str, width: int, depth: int, *, summarises: bool = False
    ):
        super().__init__()
        self.depth, self.parts = depth, PARTS[cell]
        self.kind = KINDS[kind]
        size = source // self.kind.directions
        self.summary = nn.Linear(size, width) if summarises else None
        self.begin = None  # a key of state dicts
        if not self.kind.copies:
            self.begin = nn.Linear(width if summarises else size, depth * self.parts * width)

    def forward(
        self, source: EncoderOutput, *, tape: NullTape = NULL_TAPE
    ) -> tuple[list[State], Tensor | None]:
        """Initial states, and c if there is one."""
        context_BD = None
        if self.summary is not None:
            context_BD = tape("summary", torch.tanh(self.summary(self.kind.summarise(source))))
        if self.begin is None:
            ends = source.ends or [(last_state(source),)] * self.depth
            return _on_tape([_filled(state, self.parts) for state in ends], tape), context_BD
        inputs_BD = self.kind.summarise(source) if context_BD is None else context_BD
        tensors = torch.tanh(self.begin(inputs_BD)).chunk(self.depth * self.parts, dim=-1)
        layers = range(0, len(tensors), self.parts)
        return _on_tape([tuple(tensors[at : at + self.parts]) for at in layers], tape), context_BD


def mean_state(source: EncoderOutput) -> Tensor:
    """Mean of the states of every row; zeros for a row without tokens."""
    layout = source.layout
    padded_BLD = layout.pad(source.states_TD).masked_fill(~layout.real_BL[:, :, None], 0)
    return padded_BLD.sum(1) / layout.lengths_B.clamp(min=1)[:, None]


def backward_state(source: EncoderOutput) -> Tensor:
    """Final state of the backward direction of the top layer."""
    return last_state(source).chunk(2, dim=-1)[1]


def last_state(source: EncoderOutput) -> Tensor:
    """Final state of the top layer, else the state of the last token; zeros for empty rows.

    A bidirectional encoder has the final states of both directions.
    """
    if source.ends:
        return source.ends[-1][0]
    layout = source.layout
    at_B = (layout.offsets[:-1] + layout.lengths_B - 1).clamp(min=0)
    if not source.states_TD.shape[0]:
        return F.pad(source.states_TD, (0, 0, 0, layout.rows))  # with gradients, of zero
    return source.states_TD[at_B] * ~layout.empty_B[:, None]


def _filled(state: State, parts: int) -> State:
    """State with ``parts`` tensors: without the encoder's memory cell, or with one of zeros."""
    return state[:parts] if len(state) >= parts else (*state, torch.zeros_like(state[0]))


def _on_tape(states: list[State], tape: NullTape) -> list[State]:
    """States h, and c of an LSTM, of every layer."""
    if not tape.live:
        return states
    return [
        tuple(tape.under(number)(name, part) for name, part in zip("hc", state, strict=False))
        for number, state in enumerate(states)
    ]


class BridgeKind(NamedTuple):
    """Summary of a source: one of ``directions`` of the encoder, or ``copies`` of final states."""

    summarise: Callable[[EncoderOutput], Tensor]
    directions: int = 1
    copies: bool = False


KINDS = {
    "copy": BridgeKind(last_state, copies=True),
    "last": BridgeKind(last_state),
    "backward": BridgeKind(backward_state, directions=2),
    "mean": BridgeKind(mean_state),
}
