"""Sentence vectors: one vector for each row of an encoder, from the states of its tokens."""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from regard.core.layout import Layout
from regard.layers.attention import EncoderOutput


@dataclass(frozen=True)
class RowPooling:
    """Pooling of the ``inner`` tokens of each row: the name of a function in ``ROW_POOLS``.

    ``summary`` is the place of the summary token in a row: "first", "last", or None.
    """

    pool: str = "mean"
    summary: str | None = None
    inner: slice = field(default_factory=lambda: slice(None), compare=False)

    def __call__(self, encoded: EncoderOutput) -> Tensor:
        """Compute the vectors, (B, D); vectors of empty rows are finite, but mean nothing."""
        states_TD, layout = encoded.states_TD, encoded.layout
        if self.inner != slice(None):
            rows = [row[self.inner] for row in layout.split(states_TD)]
            states_TD = torch.cat(rows)
            layout = Layout.ragged([*map(len, rows)], states_TD.device)
        return ROW_POOLS[self.pool](states_TD, layout, self.summary)


def mean_of_tokens(states_TD: Tensor, layout: Layout, summary: str | None) -> Tensor:
    """Mean of the states of each row, in fp32."""
    lengths_B = layout.lengths_B.clamp(min=1)
    return layout.pad(states_TD.float()).sum(1) / lengths_B[:, None]


def max_of_tokens(states_TD: Tensor, layout: Layout, summary: str | None) -> Tensor:
    """Maximum of the states of each row, by dimension; zeros for an empty row."""
    padded_BLD = layout.pad(states_TD)
    maximum_BD = padded_BLD.masked_fill(~layout.real_BL[:, :, None], -torch.inf).amax(1)
    return maximum_BD.masked_fill(layout.empty_B[:, None], 0)


def summary_token(states_TD: Tensor, layout: Layout, summary: str | None) -> Tensor:
    """State of the summary token of each row: its last token, or else its first."""
    places_B = layout.offsets[1:] - 1 if summary == "last" else layout.offsets[:-1]
    return states_TD[places_B.long().clamp(max=len(states_TD) - 1)]


ROW_POOLS: dict[str, Callable[[Tensor, Layout, str | None], Tensor]] = {
    "mean": mean_of_tokens,
    "max": max_of_tokens,
    "first": summary_token,
}
