"""Filling blanks, and perhaps telling which text follows, as an objective (Devlin et al., 2018)."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from regard.ground.batch import IGNORED, Batch, BatchLimits, Ids, TokenRow, pack_rows, tokens_of
from regard.ground.tape import NULL_TAPE, NullTape
from regard.parts.losses import smoothed_cross_entropy


class Blanked(NamedTuple):
    """A row with blanks, where they are, what stood there; and whether its second text is another.

    ``random`` is 0 where the second text of the row follows the first, and 1 where it was drawn.
    """

    row: TokenRow
    places: Ids
    words: Ids
    random: int = IGNORED


@dataclass(frozen=True)
class Masked:
    """Cross-entropy of the words at blanks, the mean over the blanks of a step.

    With ``follows``, that of whether the second text follows is added, the mean over rows. A row
    has one blank, or as many as come nearest to ``rate`` of its tokens, or fewer than that.
    """

    follows: bool = False
    rate: float = 0.15
    smoothing: float = 0.0

    def length(self, example: Blanked) -> tuple[int, ...]:
        """Tokens of the row."""
        return (len(example.row.tokens),)

    def weight(self, example: Blanked) -> float | np.ndarray:
        """Its blanks; and the row itself, where rows count apart from them."""
        return np.array([len(example.places), 1.0]) if self.follows else len(example.places)

    def room(self, limits: BatchLimits) -> int:
        """The most blanks that a batch of fixed shape can have.

        Rounding gives a row half a blank at most; a row of one word and two marks gets a whole one.
        """
        extra = max(0.5, 1 - 3 * self.rate)
        return min(limits.tokens, ceil(self.rate * limits.tokens + extra * limits.rows))

    def collate(self, examples: Sequence[Blanked], limits: BatchLimits | None = None) -> Batch:
        """A batch of rows; with a ``limits``, of fixed shape."""
        rows = pack_rows([one.row for one in examples], limits, even=True)
        lengths = [len(one.row.tokens) for one in examples]
        starts = np.cumsum([0, *lengths])[:-1]
        places = [
            np.asarray(one.places) + start for one, start in zip(examples, starts, strict=True)
        ]
        count = sum(map(len, places))
        size = count if limits is None else self.room(limits)
        if count > size:
            raise ValueError(f"{count} blanks in a batch that has room for {size}")
        chosen_N, goals_N = torch.zeros(size, dtype=torch.int64), torch.full((size,), IGNORED)
        chosen_N[:count] = tokens_of(places)
        goals_N[:count] = tokens_of([one.words for one in examples])
        follows_B = torch.full((rows.layout.rows,), IGNORED)
        follows_B[: len(examples)] = torch.tensor([one.random for one in examples])
        return Batch(
            rows,
            goals_N,
            count,
            chosen_N=chosen_N,
            follows_B=follows_B if self.follows else None,
        )

    def __call__(
        self, model: nn.Module, batch: Batch, tape: NullTape = NULL_TAPE
    ) -> tuple[Tensor, Tensor]:
        """Sums over the batch, (loss, negative log-likelihood); apart for blanks and for rows."""
        said = model(batch.target.tokens_T, batch.target.layout, chosen_N=batch.chosen_N, tape=tape)
        words = smoothed_cross_entropy(said.words_NV, batch.goals_T, self.smoothing)
        if not self.follows:
            return words
        assert batch.follows_B is not None
        follows = smoothed_cross_entropy(said.follows_BV, batch.follows_B, self.smoothing)
        return torch.stack([words[0], follows[0]]), torch.stack([words[1], follows[1]])
