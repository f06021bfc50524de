"""The states of a row as one vector: by attention, Σ_i α_i h_i, or several side by side."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.ground.layout import Layout
from regard.ground.tape import NULL_TAPE, NullTape
from regard.parts.attention import EncoderOutput
from regard.parts.recurrent.bridge import last_state, mean_state
from regard.parts.recurrent.rnn_attention import RNNAttention

QUERIES = ("learned", "zeros", "mean")


class AttentionPoolModule(nn.Module):
    """Keys and values are the states; the query is learned, zeros, or the mean of the states.

    With a dot-product score, zeros give the plain mean.
    """

    def __init__(self, size: int, score: str, query: str, *, inner: int, positions: int):
        super().__init__()
        self.query = query
        if query == "learned":
            self.learned = nn.Parameter(torch.empty(size).normal_(std=1 / math.sqrt(size)))
        self.attention = RNNAttention(size, size, score, inner=inner, positions=positions)

    def forward(self, source: EncoderOutput, *, tape: NullTape = NULL_TAPE) -> Tensor:
        """(B, D): zeros for a row without tokens."""
        rows, device = source.layout.rows, source.states_TD.device
        one_each = Layout.rectangle(rows, 1, device)
        return self.attention(self._query(source), one_each, self.attention.keys(source), tape=tape)

    def _query(self, source: EncoderOutput) -> Tensor:
        states_TD, layout = source.states_TD, source.layout
        if self.query == "learned":
            return self.learned.to(states_TD.dtype).expand(layout.rows, -1)
        if self.query == "zeros":
            return states_TD.new_zeros(layout.rows, states_TD.shape[-1])
        return mean_state(source)


def max_state(source: EncoderOutput) -> Tensor:
    """The maximum of the states of every row, number by number; zeros for a row without tokens."""
    layout = source.layout
    padded_BLD = layout.pad(source.states_TD).masked_fill(~layout.real_BL[:, :, None], -torch.inf)
    if not layout.longest:
        padded_BLD = F.pad(padded_BLD, (0, 0, 0, 1))  # with gradients, of zero
    return padded_BLD.amax(1).masked_fill(layout.empty_B[:, None], 0)


def concat_states(source: EncoderOutput) -> Tensor:
    """(B, 3 D): the last state, the maximum and the mean of all, before the last dropout."""
    if source.undropped_TD is not None:
        source = source._replace(states_TD=source.undropped_TD)
    return torch.cat([last_state(source), max_state(source), mean_state(source)], dim=-1)
