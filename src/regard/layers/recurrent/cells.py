"""Recurrent cells with their gates: the definition that torch's fused kernels agree with.

With W and U the weights of input and state, and b and d their biases:

- RNN: h' = tanh(W x + b + U h + d) (Elman, 1990);
- GRU: r, z = σ(W x + b + U h + d), n = tanh(W x + b + r ⊙ (U h + d)), h' = (1 - z) ⊙ n + z ⊙ h
  (Cho et al., 2014, with r inside, as in cuDNN);
- LSTM: i, f, o = σ(W x + b + U h + d), g = tanh(…), c' = f ⊙ c + i ⊙ g, h' = o ⊙ tanh(c')
  (Hochreiter & Schmidhuber, 1997; Gers et al., 2000).

A tape records ``gates``, after their activations and in torch's order, and ``cells`` of an LSTM.
Layers whose gates or cells it records or edits run these functions, not the kernels.
"""

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.core.layout import Layout
from regard.core.tape import NULL_TAPE, NullTape
from regard.layers.recurrent.unrolled_tape import UnrolledTape

State = tuple[Tensor, ...]  # of a layer, (R, width) each: h, or h and c
NAMES = {"rnn": (), "gru": ("gates",), "lstm": ("gates", "cells")}  # on a tape, by cell


def rnn_cell(
    x_RD: Tensor, state: State, weights: Sequence[Tensor], tape: NullTape = NULL_TAPE
) -> State:
    """State of an RNN after one more token in every row; it has no gates."""
    from_input, from_state = _products(x_RD, state[0], weights)
    return (torch.tanh(from_input + from_state),)


def gru_cell(
    x_RD: Tensor, state: State, weights: Sequence[Tensor], tape: NullTape = NULL_TAPE
) -> State:
    """State of a GRU after one more token in every row; its gates are r, z and n."""
    (h_RD,) = state
    from_input, from_state = _products(x_RD, h_RD, weights)
    (in_r, in_z, in_n), (of_r, of_z, of_n) = from_input.chunk(3, 1), from_state.chunk(3, 1)
    reset_RD, update_RD = torch.sigmoid(in_r + of_r), torch.sigmoid(in_z + of_z)
    new_RD = torch.tanh(in_n + reset_RD * of_n)
    gates = tape("gates", torch.stack([reset_RD, update_RD, new_RD], dim=1))
    _, update_RD, new_RD = gates.unbind(1)
    return ((1 - update_RD) * new_RD + update_RD * h_RD,)


def lstm_cell(
    x_RD: Tensor, state: State, weights: Sequence[Tensor], tape: NullTape = NULL_TAPE
) -> State:
    """State h and c of an LSTM after one more token; its gates are i, f, g and o."""
    h_RD, c_RD = state
    from_input, from_state = _products(x_RD, h_RD, weights)
    write, keep, new, read = (from_input + from_state).chunk(4, 1)
    parts = torch.sigmoid(write), torch.sigmoid(keep), torch.tanh(new), torch.sigmoid(read)
    write, keep, new, read = tape("gates", torch.stack(parts, dim=1)).unbind(1)
    c_RD = tape("cells", keep * c_RD + write * new)
    return read * torch.tanh(c_RD), c_RD


CELLS: dict[str, Callable[..., State]] = {"rnn": rnn_cell, "gru": gru_cell, "lstm": lstm_cell}


def _products(x_RD: Tensor, h_RD: Tensor, weights: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """W x + b and U h + d."""
    of_inputs, of_states, *biases = weights
    input_bias, state_bias = biases or (None, None)
    return F.linear(x_RD, of_inputs, input_bias), F.linear(h_RD, of_states, state_bias)


def run_cells(
    cell: str,
    x_TD: Tensor,
    layout: Layout,
    begin: State,
    weights: Sequence[Sequence[Tensor]],
    *,
    backward_only: bool = False,
    tape: NullTape = NULL_TAPE,
) -> tuple[Tensor, State]:
    """States of all tokens, and final states, of a layer with ``weights`` for each direction.

    On the tape, gates are (tokens, gates, width) and cells (tokens, width); of two directions, the
    second axis is the direction.
    """
    x_BLD, lengths_B = layout.pad(x_TD), layout.lengths_B.long()
    both = len(weights) > 1
    record = UnrolledTape(tape, layout, *([2] if both else []))
    out, ends = [], []
    for way, of_way in enumerate(weights):
        backward = backward_only or way == 1
        state = tuple(part.chunk(len(weights), dim=1)[way] for part in begin)
        out_BLD = x_BLD.new_zeros(layout.rows, layout.longest, state[0].shape[1])
        for time in range(layout.longest):
            rows_R = (lengths_B > time).nonzero()[:, 0]
            at_R = lengths_B[rows_R] - 1 - time if backward else torch.full_like(rows_R, time)
            moment = record.at(rows_R, at_R, *([way] if both else []))
            before = tuple(part[rows_R] for part in state)
            after = CELLS[cell](x_BLD[rows_R, at_R], before, of_way, moment)
            pairs = zip(state, after, strict=True)
            state = tuple(part.index_put((rows_R,), new) for part, new in pairs)
            out_BLD = out_BLD.index_put((rows_R, at_R), after[0])
        out.append(out_BLD)
        ends.append(state)
    states_TD = layout.pack(torch.cat(out, dim=-1))
    return states_TD, tuple(torch.cat(parts, dim=1) for parts in zip(*ends, strict=True))
