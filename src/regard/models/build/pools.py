"""Modules of pools: the states of a row as one vector."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.ground.tape import NULL_TAPE, NullTape
from regard.parts.attention import EncoderOutput


class FirstTokenModule(nn.Module):
    """The state of the first token of each row, with ``dense`` through tanh(W h + b)."""

    def __init__(self, dense: nn.Linear | None):
        super().__init__()
        self.dense = dense

    def forward(self, encoded: EncoderOutput, *, tape: NullTape = NULL_TAPE) -> Tensor:
        """(B, D); any state for a row without tokens."""
        first_BD = first_states(encoded, 1)
        return first_BD if self.dense is None else torch.tanh(self.dense(first_BD))


def first_states(encoded: EncoderOutput, count: int) -> Tensor:
    """(B, count · D): the states of the first tokens of each row, side by side."""
    states_TD, layout = encoded.states_TD, encoded.layout
    if layout.full and layout.longest >= count:
        return layout.pad(states_TD)[:, :count].flatten(1)  # whose gradient is no scatter
    if not len(states_TD):
        states_TD = F.pad(states_TD, (0, 0, 0, 1))
    starts_B, last = layout.offsets[:-1].long(), len(states_TD) - 1
    places = torch.arange(count, device=starts_B.device)
    return states_TD[(starts_B[:, None] + places).clamp(max=last)].flatten(1)


class PlainPoolModule(nn.Module):
    """A pool without weights: a function from the states of rows to one vector for each."""

    def __init__(self, pool: Callable[[EncoderOutput], Tensor]):
        super().__init__()
        self.pool = pool

    def forward(self, encoded: EncoderOutput, *, tape: NullTape = NULL_TAPE) -> Tensor:
        """(B, D); zeros for a row without tokens."""
        return self.pool(encoded)
