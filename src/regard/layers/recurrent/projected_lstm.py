"""LSTM layers in both directions, whose states are projected and clipped (Sak et al., 2014).

c_t = clip(σ(f + 1) c_{t-1} + σ(i) tanh(g)), h_t = clip(P (σ(o) tanh(c_t))), where i, g, f and o are
linear in [x_t; h_{t-1}]. The two directions do not see each other, in any layer. They run side by
side, step by step: torch's kernels cannot clip.
"""

import torch
from torch import Tensor, nn

from regard.core.layout import Layout
from regard.core.tape import NULL_TAPE, NullTape
from regard.layers.recurrent.unrolled_tape import UnrolledTape

State = tuple[Tensor, Tensor]  # h (B, 2, width) and c (B, 2, cells) of both directions


class ProjectedBiLSTM(nn.Module):
    """LSTM layer with ``cells`` memory cells and a state of ``width`` in each direction.

    Gates are in TensorFlow's order, i, g, f, o, and 1 is added to forget gates.
    """

    def __init__(
        self,
        inputs: int,
        width: int,
        cells: int,
        *,
        cell_clip: float | None = None,
        projection_clip: float | None = None,
    ):
        super().__init__()
        self.width, self.cells = width, cells
        self.cell_clip, self.projection_clip = cell_clip, projection_clip
        self.gates = nn.Parameter(torch.empty(2, inputs + width, 4 * cells))
        self.bias = nn.Parameter(torch.zeros(2, 4 * cells))
        self.projection = nn.Parameter(torch.empty(2, cells, width))
        for weight in (*self.gates, *self.projection):
            nn.init.xavier_uniform_(weight.detach())

    def new_state(self, rows: int) -> State:
        """Initial state: zeros."""
        sizes = (self.width, self.cells)
        return tuple(self.bias.new_zeros(rows, 2, size) for size in sizes)  # type: ignore[return-value]

    def forward(
        self,
        x_TD: Tensor,
        layout: Layout,
        state: State | None = None,
        *,
        flipped: bool = False,
        tape: NullTape = NULL_TAPE,
    ) -> tuple[Tensor, State]:
        """States [forward; backward] of tokens with inputs [forward; backward]; the final state.

        The backward direction reads a row from its end, so its final state belongs to the first
        token. If the backward inputs are ``flipped`` already, both directions read from the
        beginning.
        """
        by_direction = _unchanged if flipped else _by_direction
        x_2LBD = by_direction(layout.pad(x_TD).unflatten(-1, (2, -1)).permute(2, 1, 0, 3))
        real_2LB = None if layout.full else by_direction(layout.real_BL.T.expand(2, -1, -1))
        inputs, rows = x_2LBD.shape[-1], layout.rows
        of_inputs, of_state = self.gates.split([inputs, self.width], dim=1)
        gates_2LBF = x_2LBD.flatten(1, 2) @ of_inputs + self.bias[:, None]
        gates_2LBF = gates_2LBF.unflatten(1, (layout.longest, rows))
        h_2BD, c_2BF = (part.transpose(0, 1) for part in state or self.new_state(rows))
        states, record = [], UnrolledTape(tape, layout, 2) if tape.live else None
        for time in range(layout.longest):
            moment = tape if record is None else self._moment(record, time, flipped)
            after = self._step(gates_2LBF[:, time] + h_2BD @ of_state, c_2BF, moment)
            if real_2LB is not None:
                real_2B1 = real_2LB[:, time, :, None]
                after = (after[0].where(real_2B1, h_2BD), after[1].where(real_2B1, c_2BF))
            h_2BD, c_2BF = after
            states.append(h_2BD)
        out_2LBD = torch.stack(states, 1) if states else self._nothing(x_2LBD)
        out_BLD = by_direction(out_2LBD).permute(2, 1, 0, 3).flatten(2)
        return layout.pack(out_BLD), (h_2BD.transpose(0, 1), c_2BF.transpose(0, 1))

    def _nothing(self, x_2LBD: Tensor) -> Tensor:
        """States of a batch without tokens; gradients still flow to the weights."""
        zero = sum((weight.sum() for weight in self.parameters()), start=x_2LBD.sum())
        return zero.expand(*x_2LBD.shape[:-1], self.width)

    def _moment(self, record: UnrolledTape, time: int, flipped: bool) -> NullTape:
        """The tape of one step, (B, 2, …): the backward direction begins at the last place."""
        layout = record.layout
        device = layout.positions_T.device
        ways = torch.arange(2, device=device)
        places = torch.tensor([time, time if flipped else layout.longest - 1 - time], device=device)
        return record.at(torch.arange(layout.rows, device=device)[:, None], places, ways)

    def _step(self, gates_2BF: Tensor, c_2BF: Tensor, tape: NullTape) -> tuple[Tensor, Tensor]:
        write, new, keep, read = gates_2BF.chunk(4, -1)
        parts = [write.sigmoid(), new.tanh(), (keep + 1).sigmoid(), read.sigmoid()]
        if tape.wants("gates"):
            gates = tape("gates", torch.stack(parts, dim=2).transpose(0, 1))
            parts = [*gates.transpose(0, 1).unbind(2)]
        write, new, keep, read = parts
        c_2BF = _clip(keep * c_2BF + write * new, self.cell_clip)
        if tape.wants("cells"):
            c_2BF = tape("cells", c_2BF.transpose(0, 1)).transpose(0, 1)
        h_2BD = (read * c_2BF.tanh()) @ self.projection
        return _clip(h_2BD, self.projection_clip), c_2BF


def _clip(x: Tensor, limit: float | None) -> Tensor:
    return x if limit is None else x.clamp(-limit, limit)


def _unchanged(x_2L: Tensor) -> Tensor:
    return x_2L


def _by_direction(x_2L: Tensor) -> Tensor:
    """Tensor with the backward direction reversed in time; its own inverse."""
    return torch.stack([x_2L[0], x_2L[1].flip(0)])
