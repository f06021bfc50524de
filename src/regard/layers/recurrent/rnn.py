"""Recurrent layers on packed tokens: RNN, GRU (Cho et al., 2014) and LSTM (Hochreiter, 1997).

All tokens of a batch run in torch's fused kernels, in time-major order and without padding; single
steps run in torch's cells, with the same weights. Either lengths are known on the host, or rows are
padded to a rectangle, which can be captured; these layers are not compiled. Under autocast they run
in the precision of their weights: errors of an fp16 state would accumulate over time.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from types import MappingProxyType
from typing import Never, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.core.layout import Layout
from regard.core.tape import NULL_TAPE, NullTape
from regard.layers.dropout import Dropout
from regard.layers.recurrent.cells import CELLS, NAMES, run_cells
from regard.layers.recurrent.fused_rnn import ALIGNED, FROZEN, Weights, run_fused

State = tuple[Tensor, ...]  # of a layer, (R, width) each: h, or h and c

KERNELS: dict[str, Callable[..., nn.RNNBase]] = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}
STEPS: dict[str, Callable[..., Tensor | State]] = {
    "rnn": torch.rnn_tanh_cell,
    "gru": torch.gru_cell,
    "lstm": torch.lstm_cell,
}
PARTS = {"rnn": 1, "gru": 1, "lstm": 2}  # of a state
DIRECTIONS = ("forward", "backward", "both")
NOTHING: Mapping[int, Never] = MappingProxyType({})


def without_autocast(x: Tensor) -> AbstractContextManager:
    """Context without autocast, for recurrent layers."""
    if not torch.amp.is_autocast_available(x.device.type):
        return nullcontext()
    return torch.autocast(x.device.type, enabled=False)


class RNNLayer(nn.Module):
    """Recurrent layer in one direction or "both", with states [forward; backward].

    In training, ``weight_drop`` is the dropout rate of the recurrent weights, with one mask for all
    tokens of a call (Merity et al., 2017, section 2), or of all calls with the same ``weights``.
    """

    def __init__(
        self, cell: str, inputs: int, width: int, reads: str = "forward", weight_drop: float = 0.0
    ):
        super().__init__()
        self.cell, self.width = cell, width
        self.weight_drop = Dropout(weight_drop)
        self.reads_forward, self.backward_only = reads == "forward", reads == "backward"
        both = reads == "both"
        self.kernel = KERNELS[cell](inputs, width, bidirectional=both)
        self.states = 2 * width if both else width
        if cell == "lstm":
            for _, _, bias, _ in self.kernel.all_weights:
                nn.init.ones_(bias.detach()[width : 2 * width])  # open forget gates

    def forward(
        self,
        x_TD: Tensor,
        layout: Layout,
        begin: State | None = None,
        weights: Sequence[Weights] | None = None,
        *,
        tape: NullTape = NULL_TAPE,
    ) -> tuple[Tensor, State]:
        """States of all tokens, and final states; empty rows keep the initial state, or zeros.

        ``weights`` are a result of ``drawn_weights``, by default a new one. Kernels do not return
        gates and cells: if the ``tape`` wants them, the definition of the cell runs.
        """
        weights = self.drawn_weights() if weights is None else weights
        # Padding before a row keeps the c of an LSTM, and its h only where both are zero.
        freezes = self.cell in FROZEN and (begin is None or self.reads_forward)
        if begin is None:
            begin = (x_TD.new_zeros(layout.rows, self.states),) * PARTS[self.cell]
        begin = tuple(part.to(x_TD.dtype) for part in begin)
        if tape.wants(*NAMES[self.cell]) and layout.tokens:
            run = partial(run_cells, backward_only=self.backward_only, tape=tape)
            return run(self.cell, x_TD, layout, begin, weights)
        if layout.full and layout.tokens and not self.backward_only:
            return self._rectangle(x_TD, layout, begin, weights)
        if layout.even and not layout.full and layout.tokens and freezes:
            return self._padded_rectangle(x_TD, layout, begin, weights)
        time_major = layout.time_major
        if not time_major.rows:
            nothing_TD = self._nothing(x_TD, begin)
            return nothing_TD, tuple(part + nothing_TD.sum() for part in begin)
        data_TD = time_major.from_packed(x_TD, backward=self.backward_only)
        ordered = tuple(part[time_major.order_R] for part in begin)
        out_TD, ends = self._run(data_TD, ordered, weights, torch.tensor(time_major.alive))
        states_TD = time_major.to_packed(out_TD, backward=self.backward_only)
        return states_TD, tuple(
            whole.index_copy(0, time_major.order_R, part)
            for whole, part in zip(begin, ends, strict=True)
        )

    def drawn_weights(self) -> list[Weights]:
        """Weights of each direction, with dropout on recurrent weights in training."""
        return [
            (inputs, self.weight_drop(states), *biases)
            for inputs, states, *biases in self.kernel.all_weights
        ]

    def _rectangle(
        self, x_TD: Tensor, layout: Layout, begin: State, weights: Sequence[Weights]
    ) -> tuple[Tensor, State]:
        """States and final states of full rows, which need no reordering."""
        out_LBD, ends = self._run(layout.pad(x_TD).transpose(0, 1), begin, weights)
        return layout.pack(out_LBD.transpose(0, 1)), ends

    def _padded_rectangle(
        self, x_TD: Tensor, layout: Layout, begin: State, weights: Sequence[Weights]
    ) -> tuple[Tensor, State]:
        """States and final states of padded rows, with lengths on the device."""
        x_LBD, padding_LB = layout.pad(x_TD).transpose(0, 1), ~layout.real_BL.T
        if self.backward_only:
            x_LBD, padding_LB = x_LBD.flip(0), padding_LB.flip(0)
        out_LBD, (h_BD, *c_BD) = self._run(x_LBD, begin, weights, padding_LB=padding_LB)
        if self.backward_only:
            return layout.pack(out_LBD.flip(0).transpose(0, 1)), (h_BD, *c_BD)
        # Where rows end before the last step, the h of an LSTM is still that of a later step.
        last_1BD = (layout.lengths_B.long() - 1).clamp(min=0)[None, :, None]
        last_1BD = last_1BD.expand(-1, -1, self.width)
        end_BD = out_LBD[..., : self.width].gather(0, last_1BD)[0]
        end_BD = torch.cat([end_BD, h_BD[:, self.width :]], dim=-1)
        end_BD = torch.where(layout.empty_B[:, None], begin[0], end_BD)
        return layout.pack(out_LBD.transpose(0, 1)), (end_BD, *c_BD)

    def _run(
        self,
        x: Tensor,
        begin: State,
        weights: Sequence[Weights],
        alive: Tensor | None = None,
        padding_LB: Tensor | None = None,
    ) -> tuple[Tensor, State]:
        """Run the fused kernel on (L, B, D), or on time-major tokens with ``alive`` rows a time."""
        parts = (part.unflatten(1, (-1, self.width)).transpose(0, 1) for part in begin)
        state, pads = tuple(part.contiguous() for part in parts), x.is_cuda and self.training
        rows = {"alive": alive, "padding_LB": padding_LB}
        multiple = ALIGNED if pads else 1
        out, ends = run_fused(
            self.cell, x, state, weights, **rows, training=self.training, multiple=multiple
        )
        return out, tuple(part.transpose(0, 1).flatten(1) for part in ends)

    def step(self, x_RD: Tensor, state: State, tape: NullTape = NULL_TAPE) -> State:
        """State after one more token in every row; only for forward layers."""
        if tape.wants(*NAMES[self.cell]):
            return CELLS[self.cell](x_RD, state, self.kernel.all_weights[0], tape)
        return self._cell(x_RD, state, self.kernel.all_weights[0])

    def _cell(self, x_RD: Tensor, state: State, weights: Sequence[Tensor]) -> State:
        after = STEPS[self.cell](x_RD, state if self.cell == "lstm" else state[0], *weights)
        return after if isinstance(after, tuple) else (after,)

    def _nothing(self, x_TD: Tensor, begin: State) -> Tensor:
        """Zeros for a batch without tokens; gradients still flow to the weights."""
        ways = []
        for way, weights in enumerate(self.kernel.all_weights):
            state = tuple(part[:0, way * self.width :][:, : self.width] for part in begin)
            ways.append(self._cell(x_TD[:0], state, weights)[0])
        return F.pad(torch.cat(ways, dim=1), (0, 0, 0, len(x_TD)))


class RNNStack(nn.Module):
    """Stack of recurrent layers; with ``residual``, layers above the first add to their input.

    ``joined`` gives the number of features that are concatenated to the input of a layer above the
    first, by its number. Dropout between layers is not left to torch's kernel, whose draws on CUDA
    do not follow the seed of a step.
    """

    def __init__(
        self,
        cell: str,
        inputs: int,
        width: int,
        depth: int,
        *,
        reads: str = "forward",
        residual: bool = False,
        dropout: float = 0.0,
        joined: Mapping[int, int] = NOTHING,
    ):
        super().__init__()
        self.cell, self.residual = cell, residual
        states = 2 * width if reads == "both" else width
        sizes = [inputs, *(states + joined.get(number, 0) for number in range(1, depth))]
        self.layers = nn.ModuleList(RNNLayer(cell, size, width, reads=reads) for size in sizes)
        self.dropout = Dropout(dropout)

    def forward(
        self,
        x_TD: Tensor,
        layout: Layout,
        begin: Sequence[State] | None = None,
        *,
        joined: Mapping[int, Tensor] = NOTHING,
        tape: NullTape = NULL_TAPE,
    ) -> tuple[Tensor, list[State]]:
        """States of the top layer, and final states of all layers."""
        ends, x_TD = [], x_TD.to(self.dtype)
        with without_autocast(x_TD):
            for number, layer in enumerate(self.layers):
                inputs_TD = self.dropout(x_TD) if number else x_TD
                if number in joined:
                    inputs_TD = torch.cat([inputs_TD, joined[number].to(x_TD.dtype)], dim=-1)
                inner, first = tape.under(number), None if begin is None else begin[number]
                states_TD, end = layer(inputs_TD, layout, first, tape=inner)
                x_TD = x_TD + states_TD if number and self.residual else states_TD
                x_TD = inner("output", x_TD)
                ends.append(end)
        return x_TD, ends

    @property
    def dtype(self) -> torch.dtype:
        """Precision of the weights."""
        return next(self.parameters()).dtype

    def step(
        self, x_RD: Tensor, states: Sequence[State], tape: NullTape = NULL_TAPE
    ) -> tuple[Tensor, list[State]]:
        """Output of the top layer, and states of all layers, after one more token in every row."""
        after = []
        for number, state in enumerate(states):
            layer = cast(RNNLayer, self.layers[number])
            inner = tape.under(number)
            state = layer.step(self.dropout(x_RD) if number else x_RD, state, inner)
            x_RD = inner("output", x_RD + state[0] if number and self.residual else state[0])
            after.append(state)
        return x_RD, after
