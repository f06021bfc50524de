"""torch's fused recurrent kernels, called with weights from anywhere, not only from a module.

On CUDA, cuDNN needs sizes that are multiples of 8 for its fastest products. Inputs and states can
be padded with zeros to such a size: with zero weights and biases the padded units stay zero, and
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
# Added to each gate at padding, so that an LSTM forgets nothing and reads nothing, and a GRU
# updates nothing: the sigmoids are exactly 0 or 1.
FREEZE = 1e4
FROZEN: dict[str, tuple[float, ...]] = {
    "lstm": (-FREEZE, FREEZE, 0.0, 0.0),
    "gru": (0.0, FREEZE, 0.0),
}

Weights = tuple[Tensor, ...]  # from inputs to gates, from states to gates, and a bias for each


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
    """States of all tokens, and final states, of a layer with ``weights`` for each direction.

    ``x`` is (L, B, D), or (T, D) in time-major order with ``alive`` rows at each time. States are
    (directions, B, width) each: h, and c for an LSTM. At padding, GRUs keep their state and LSTMs
    keep c. Sizes are padded to a multiple of ``multiple``.
    """
    if padding_LB is not None:
        x = torch.cat([x, padding_LB[:, :, None].to(x.dtype)], dim=-1)
        weights = [_freezing(cell, way) for way in weights]
    width = begin[0].shape[-1]
    pad_inputs, pad_states = -x.shape[-1] % multiple, -width % multiple
    if pad_inputs or pad_states:
        x = F.pad(x, (0, pad_inputs))
        begin = tuple(F.pad(part, (0, pad_states)) for part in begin)
        weights = [_padded(way, width, pad_inputs, pad_states) for way in weights]
    state = begin if len(begin) > 1 else begin[0]
    flat = [weight for way in weights for weight in way]
    inputs = (x, state, flat) if alive is None else (x, alive, state, flat)
    batch_first = (False,) if alive is None else ()
    with warnings.catch_warnings():
        # Weights made for this call lie apart in memory, and cuDNN copies them.
        warnings.filterwarnings("ignore", "RNN module weights are not part")
        settings = (True, 1, 0.0, training, len(weights) > 1, *batch_first)
        out, *ends = FUSED[cell](*inputs, *settings)
    if pad_states:
        out = out.unflatten(-1, (len(weights), -1))[..., :width].flatten(-2)
    return out, tuple(part[..., :width] for part in ends)


def _freezing(cell: str, way: Weights) -> Weights:
    """Weights with one more input, which is 1 at padding."""
    rows = len(way[0]) // len(FROZEN[cell])
    gates = torch.cat([way[0].new_full((rows, 1), value) for value in FROZEN[cell]])
    return torch.cat([way[0], gates], dim=1), *way[1:]


def _padded(way: Weights, width: int, pad_inputs: int, pad_states: int) -> Weights:
    """Weights padded with zeros, gate by gate."""
    biases = [(0, pad_states)] * len(way[2:])
    pads = [(0, pad_inputs, 0, pad_states), (0, pad_states, 0, pad_states), *biases]
    gates = (weight.unflatten(0, (-1, width)) for weight in way)
    return tuple(F.pad(gate, pad).flatten(0, 1) for gate, pad in zip(gates, pads, strict=True))
