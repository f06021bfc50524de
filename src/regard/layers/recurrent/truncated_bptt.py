"""Truncated backpropagation through time: gradients through the last tokens of long rows only.

Earlier tokens are read without gradients, and pass on their state, so texts of any length need a
fixed amount of memory (BPT3C: Howard & Ruder, 2018, arXiv:1801.06146, section 3.3).
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.core.layout import Layout, gather_rows, scatter_rows
from regard.layers.recurrent.rnn import RNNLayer, State


@dataclass(frozen=True, eq=False)
class TruncatedRows:
    """Tokens of a batch, split into the last ones of each row (``late``) and the ``early`` rest."""

    early_T: Tensor
    early: Layout
    late_T: Tensor
    late: Layout

    @classmethod
    def of(cls, layout: Layout, bptt: int) -> "TruncatedRows":
        """Split a layout before the last ``bptt`` tokens of each row."""
        device, lengths = layout.positions_T.device, layout.known_lengths
        before = [max(0, length - bptt) for length in lengths]
        places_T = torch.arange(layout.tokens, device=device) - layout.offsets[layout.rows_T]
        early_T = places_T < torch.tensor(before, device=device)[layout.rows_T]
        after = [length - early for length, early in zip(lengths, before, strict=True)]
        parts = ((early_T, before), (~early_T, after))
        (early_T, early), (late_T, late) = (
            (chosen_T.nonzero()[:, 0], Layout.ragged(lengths, device))
            for chosen_T, lengths in parts
        )
        return cls(early_T, early, late_T, late)

    def run(self, layer: RNNLayer, x_TD: Tensor, begin: State) -> tuple[Tensor, State]:
        """States of a layer with one draw of weights, without gradients for early tokens.

        Rows without early tokens start from ``begin``, which may be learned.
        """
        weights = layer.drawn_weights()
        with torch.no_grad():
            early_TD, after = layer(x_TD[self.early_T], self.early, begin, weights)
        whole_B1 = self.early.empty_B[:, None]
        state = tuple(
            torch.where(whole_B1, before_BD.to(after_BD.dtype), after_BD)
            for before_BD, after_BD in zip(begin, after, strict=True)
        )
        late_TD, end = layer(gather_rows(x_TD, self.late_T), self.late, state, weights)
        count = len(x_TD)
        states_TD = scatter_rows(late_TD, self.late_T, count)
        return states_TD + scatter_rows(early_TD, self.early_T, count), end
