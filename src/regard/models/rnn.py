"""Recurrent stacks: encoders, and language models that carry their state."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, NamedTuple, cast

import torch
from torch import Tensor, nn

from regard.core.errors import BadInput
from regard.core.layout import Layout
from regard.core.tape import NULL_TAPE, NullTape
from regard.layers.attention import EncoderOutput
from regard.layers.dropout import RowDropout, TokenDropout
from regard.layers.kv_cache import RNNState
from regard.layers.recurrent.fused_rnn import FROZEN
from regard.layers.recurrent.rnn import (
    DIRECTIONS,
    KERNELS,
    NOTHING,
    PARTS,
    RNNLayer,
    RNNStack,
    State,
    without_autocast,
)
from regard.layers.recurrent.static_rnn_state import StatefulDecoder, StaticRNNState
from regard.layers.recurrent.truncated_bptt import TruncatedRows
from regard.models.embedding import AnyEmbedding
from regard.models.facts import at_least, one_of, share
from regard.models.macs import MACs
from regard.models.trunk import AnyStack, StackModule

INITIAL = ("zero", "learned")
GATES = {"rnn": 1, "gru": 3, "lstm": 4}


@dataclass(frozen=True)
class AnyRNN(AnyStack):
    """Base class of recurrent stacks; the ``cell`` is "rnn", "gru" or "lstm".

    ``embedding`` is the size of token vectors. ``dropout`` is applied to embeddings, between layers
    and to the output.
    """

    eager: ClassVar[bool] = True
    width: int
    embedding: int
    depth: int = 1
    cell: str = "lstm"
    residual: bool = False
    dropout: float = 0.0

    def __post_init__(self) -> None:
        at_least(1, self, "width", "embedding", "depth")
        share(self, "dropout")
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

    def build_layers(
        self, inputs: int, direction: str = "forward", joined: Mapping[int, int] = NOTHING
    ) -> RNNStack:
        """The recurrent layers over vectors of size ``inputs``."""
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

    def _gate_macs(self, inputs: int, directions: int = 1) -> int:
        """MACs of all gates; layers above the first read both directions of the layer below."""
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

    def build(self, embed: AnyEmbedding, source: AnyStack | None = None) -> "RNNEncoderModule":
        return RNNEncoderModule(self, embed)

    def macs(self, source: AnyStack | None = None) -> MACs:
        return MACs(self._gate_macs(self.embedding, self._directions))

    def joined_macs(self, size: int) -> int:
        return self._directions * GATES[self.cell] * self.width * size

    @property
    def _directions(self) -> int:
        return 2 if self.bidirectional else 1


class RNNEncoderModule(StackModule):
    """Recurrent encoder: an embedding and recurrent layers."""

    def __init__(self, facts: RNNEncoderFacts, embed: AnyEmbedding):
        super().__init__()
        self.embed = embed.build(facts.input_width, facts.dropout)
        self.layers = facts.build_layers(facts.embedding, facts.direction, embed.joined)
        self.capturable = facts.takes_rectangles

    def forward(
        self,
        tokens_T: Tensor,
        layout: Layout,
        *,
        joined: Mapping[int, Tensor] = NOTHING,
        tape: NullTape = NULL_TAPE,
    ) -> EncoderOutput:
        """Compute a state for every token, and the final state of every layer.

        Features may be ``joined`` to the input of a layer above the first.
        """
        x_TD = tape("embed.output", self.embed(tokens_T, layout, tape.under("embed")))
        states_TD, ends = self.layers(x_TD, layout, joined=joined, tape=tape.under("blocks"))
        return EncoderOutput(tape("output", states_TD), layout, ends)


@dataclass(frozen=True)
class CausalRNNFacts(AnyRNN):
    """The recurrent layers of a language model, whose ``initial`` state is "zero" or "learned".

    ``last_width`` is the size of the states of the last layer, default ``width``. ``dropout`` is
    applied to the output, and to the input and between layers unless ``input_dropout`` and
    ``hidden_dropout`` are set. ``locked``: all tokens of a row share a mask (Gal & Ghahramani,
    2016). ``weight_drop`` is applied to the recurrent weights (Merity et al., 2017). With ``bptt``,
    gradients flow through the last ``bptt`` tokens of a row only (Howard & Ruder, 2018).
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
        at_least(1, self, "last_width", "bptt")
        one_of(INITIAL, "initial", self.initial)
        share(self, "input_dropout", "hidden_dropout", "weight_drop")
        if self.residual and self.output_width != self.width:
            raise BadInput("all layers must have the same size; remove last_width", key="residual")

    @property
    def output_width(self) -> int:
        return self.last_width or self.width

    @property
    def state_widths(self) -> tuple[int, ...]:
        return (self.embedding, *[self.width] * (self.depth - 1), self.output_width)

    @property
    def causal(self) -> bool:
        return True

    def build(self, embed: AnyEmbedding, source: AnyStack | None = None) -> "CausalRNNModule":
        return CausalRNNModule(self, embed)

    def macs(self, source: AnyStack | None = None) -> MACs:
        gates = (
            GATES[self.cell] * width * (inputs + width)
            for inputs, width in pairwise(self.state_widths)
        )
        return MACs(sum(gates))


class RNNDecoderState(NamedTuple):
    """The state of a decoder: of each layer, and a vector that every step reads, or None.

    The vector is h̃ of the last step (input feeding) or a summary of the source.
    """

    states: Sequence[State]
    told_RD: Tensor | None

    def rows(self, index: Tensor | slice) -> "RNNDecoderState":
        """Select the rows of an index, in its order."""
        states = [tuple(part[index] for part in state) for state in self.states]
        return RNNDecoderState(states, None if self.told_RD is None else self.told_RD[index])

    @classmethod
    def join(cls, parts: "Sequence[RNNDecoderState]") -> "RNNDecoderState":
        """Concatenate the rows of several states."""
        layers = zip(*(part.states for part in parts), strict=True)
        states = [tuple(map(torch.cat, zip(*layer, strict=True))) for layer in layers]
        told = [part.told_RD for part in parts if part.told_RD is not None]
        return cls(states, torch.cat(told) if told else None)

    @property
    def tensors(self) -> list[Tensor]:
        """All tensors, in a fixed order."""
        told = [] if self.told_RD is None else [self.told_RD]
        return [*(part for state in self.states for part in state), *told]

    def to(self, dtype: torch.dtype) -> "RNNDecoderState":
        """The state in another precision."""
        states = [tuple(part.to(dtype) for part in state) for state in self.states]
        return RNNDecoderState(states, None if self.told_RD is None else self.told_RD.to(dtype))


class CarriedRNNState(NamedTuple):
    """State carried from batch to batch; ``begins_B1`` is 1 for rows at the beginning of a text.

    The states of such rows are zeros, to which a learned initial state is added.
    """

    begins_B1: Tensor
    layers: tuple[State, ...]


class CausalRNNModule(StatefulDecoder, StackModule):
    """Recurrent language model: an embedding and recurrent layers, each after dropout."""

    capturable = True

    def __init__(self, facts: CausalRNNFacts, embed: AnyEmbedding):
        super().__init__()
        self.embed = embed.build(facts.input_width, 0.0)
        layers = [
            RNNLayer(facts.cell, *sizes, weight_drop=facts.weight_drop)
            for sizes in pairwise(facts.state_widths)
        ]
        self.layers, self.residual = nn.ModuleList(layers), facts.residual
        before = (facts.input_dropout, facts.hidden_dropout, facts.dropout)
        drop = RowDropout if facts.locked else TokenDropout
        self.input_dropout, self.hidden_dropout, self.output_dropout = (
            drop(facts.dropout if rate is None else rate) for rate in before
        )
        self.initial = InitialState(layers) if facts.initial == "learned" else None
        self.bptt = facts.bptt

    @property
    def dtype(self) -> torch.dtype:
        """The precision of the recurrent weights."""
        return next(self.layers.parameters()).dtype

    def new_state(self, rows: int) -> CarriedRNNState:
        """Initial state of rows, before any token."""
        weight = next(self.layers.parameters())
        layers = [cast(RNNLayer, layer) for layer in self.layers]
        zeros = ((weight.new_zeros(rows, layer.width),) * PARTS[layer.cell] for layer in layers)
        return CarriedRNNState(weight.new_ones(rows, 1), tuple(zeros))

    def start(self, cache: StaticRNNState, source: None) -> None:
        """Fill a cache with the state before the first token."""
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
        """Compute a state for every token, starting from ``state`` or from the cached state."""
        x_TD = tape("embed.output", self.embed(tokens_T, layout, tape.under("embed")))
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
            inner = tape.under("blocks").under(number)
            if truncated is None:
                states_TD, end = layer(given_TD, layout, begin[number], tape=inner)
            else:
                states_TD, end = truncated.run(cast(RNNLayer, layer), given_TD, begin[number])
            x_TD = x_TD + states_TD if number and self.residual else states_TD
            x_TD = inner("output", x_TD)
            ends.append(end)
        return x_TD, ends

    def _begin(
        self, layout: Layout, state: CarriedRNNState | None, cache: RNNState | None
    ) -> Sequence[State]:
        """The cached state, else the carried state, else the state at the beginning of a text."""
        if cache is not None and cache.current is not None:
            return cache.current.states
        return self._initial(self.new_state(layout.rows) if state is None else state)

    def _initial(self, state: CarriedRNNState) -> Sequence[State]:
        """The states of all rows, with the learned initial state, if any, where a text begins."""
        return state.layers if self.initial is None else self.initial(state)


class InitialState(nn.Module):
    """Learned state of every layer before the first token of a text."""

    def __init__(self, layers: Sequence[RNNLayer]):
        super().__init__()
        self.layers = nn.ParameterList(
            nn.Parameter(torch.zeros(PARTS[layer.cell], layer.width)) for layer in layers
        )

    def forward(self, state: CarriedRNNState) -> tuple[State, ...]:
        """The states of all rows, with the learned state where a text begins."""
        pairs = zip(state.layers, self.layers, strict=True)
        return tuple(
            tuple(
                part_BD + state.begins_B1 * begin_D
                for part_BD, begin_D in zip(parts, begin_PD, strict=True)
            )
            for parts, begin_PD in pairs
        )
