"""torch's fused recurrent kernels, over weights that need not be those of a module.

On CUDA, sizes that are no multiple of 8 keep cuDNN from its fastest products. Inputs and states can
be padded to one by zeros: with weights and biases of zero, the states of such units stay zero, and
nothing depends on them.
"""

import warnings
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

FUSED: dict[str, Callable[..., tuple[Tensor, ...]]] = {
    "rnn": torch.rnn_tanh,
    "gru": torch.gru,
    "lstm": torch.lstm,
}
ALIGNED = 8
# What padding adds to each gate: an LSTM then forgets nothing and reads nothing, a GRU updates
# nothing. Their sigmoids are exactly 0 and 1.
FREEZE = 1e4
FROZEN: dict[str, tuple[float, ...]] = {
    "lstm": (-FREEZE, FREEZE, 0.0, 0.0),
    "gru": (0.0, FREEZE, 0.0),
}

Weights = tuple[Tensor, ...]  # from inputs to gates, from states to gates, and a bias of each


def run_fused(
    cell: str,
    x: Tensor,
    begin: tuple[Tensor, ...],
    weights: Sequence[Weights],
    *,
    alive: Tensor | None = None,
    padding_LB: Tensor | None = None,
    training: bool = False,
    multiple: int = 1,
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """States of all tokens, and final states, of a layer with these ``weights`` of each direction.

    The tokens are (L, B, D), or (T, D) in time-major order, of which ``alive`` rows have one at
    each time. States are (directions, B, width) each, of a ``cell`` with two parts h and c. Where
    there is ``padding``, GRUs keep their state and LSTMs keep c. With ``multiple``, sizes are
    padded to one.
    """
    if padding_LB is not None:
        x = torch.cat([x, padding_LB[:, :, None].to(x.dtype)], dim=-1)
        weights = [_freezing(cell, way) for way in weights]
    inputs, width = x.shape[-1], begin[0].shape[-1]
    pad_inputs, pad_states = -inputs % multiple, -width % multiple
    if pad_inputs or pad_states:
        x = F.pad(x, (0, pad_inputs))
        begin = tuple(F.pad(part, (0, pad_states)) for part in begin)
        weights = [_padded(way, width, pad_inputs, pad_states) for way in weights]
    state = begin if len(begin) > 1 else begin[0]
    flat = [weight for way in weights for weight in way]
    given = (state, flat) if alive is None else (alive, state, flat)
    batch_first = (False,) if alive is None else ()
    with warnings.catch_warnings():
        # They are those of a module, or made for this call: then a copy is due.
        warnings.filterwarnings("ignore", "RNN module weights are not part")
        settings = (True, 1, 0.0, training, len(weights) > 1, *batch_first)
        out, *ends = FUSED[cell](x, *given, *settings)
    if pad_states:
        out = out.unflatten(-1, (len(weights), -1))[..., :width].flatten(-2)
    return out, tuple(part[..., :width] for part in ends)


def _freezing(cell: str, way: Weights) -> Weights:
    """Weights with one more input, which is 1 at padding."""
    rows = len(way[0]) // len(FROZEN[cell])
    gates = torch.cat([way[0].new_full((rows, 1), value) for value in FROZEN[cell]])
    return torch.cat([way[0], gates], dim=1), *way[1:]


def _padded(way: Weights, width: int, pad_inputs: int, pad_states: int) -> Weights:
    """Weights with zeros, gate by gate."""
    pads = ((0, pad_inputs, 0, pad_states), (0, pad_states, 0, pad_states))
    matrices = zip(way[:2], pads, strict=True)
    return (
        *(F.pad(one.unflatten(0, (-1, width)), pad).flatten(0, 1) for one, pad in matrices),
        *(F.pad(one.unflatten(0, (-1, width)), (0, pad_states)).flatten() for one in way[2:]),
    )
