"""Sequences of token ids as packed tensors, with shapes free (CPU) or fixed (CUDA)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from regard.ground.errors import BadInput
from regard.ground.layout import Layout, moved_to

IGNORED = -100  # a goal that no loss counts


@dataclass(frozen=True, eq=False)
class Packed:
    """Tokens of several rows, end to end, and how they lie; ``real`` counts those not fill."""

    tokens_T: Tensor
    layout: Layout
    real: int

    def to(self, device: torch.device | str) -> "Packed":
        """The same rows on ``device``."""
        tokens_T = moved_to(self.tokens_T, device)
        return Packed(tokens_T, self.layout.to(device), self.real)


@dataclass(frozen=True)
class Budget:
    """What one batch may hold on either side: tokens in all, rows, and tokens in one row.

    On CUDA these are the batch's fixed shape, so that one compiled graph serves them all: what
    real rows leave free is filled by rows of their own, no longer than ``longest``, that no loss
    counts.
    """

    tokens: int
    rows: int
    longest: int

    def __post_init__(self) -> None:
        if min(self.tokens, self.rows, self.longest) < 1:
            raise BadInput(f"{self}: every limit must be at least 1")
        if self.longest > self.tokens:
            raise BadInput(f"{self}: a row as long as `longest` does not fit into `tokens`")

    @property
    def all_rows(self) -> int:
        """Rows in the layout: real ones, fill, and empty ones."""
        return self.rows + -(-self.tokens // self.longest)

    def lengths(self, real: Sequence[int]) -> list[int]:
        """The lengths of real rows, then of the rows that fill the budget, then of empty ones."""
        if len(real) > self.rows or sum(real) > self.tokens or max(real, default=0) > self.longest:
            raise ValueError(f"rows of lengths {list(real)} do not fit {self}")
        full, rest = divmod(self.tokens - sum(real), self.longest)
        lengths = [*real, *[self.longest] * full, *[rest] * (rest > 0)]
        return lengths + [0] * (self.all_rows - len(lengths))


def pack(
    sequences: Sequence[Sequence[int] | np.ndarray], budget: Budget | None = None, fill: int = 0
) -> Packed:
    """Rows laid end to end; with a ``budget``, filled up to it."""
    lengths = [len(sequence) for sequence in sequences]
    arrays = [np.asarray(sequence, dtype=np.int64) for sequence in sequences]
    tokens = np.concatenate(arrays) if arrays else np.zeros(0, dtype=np.int64)
    if budget is None:
        return Packed(torch.from_numpy(tokens), Layout.ragged(lengths), len(tokens))
    layout = Layout.ragged(budget.lengths(lengths))
    layout = replace(layout, lengths=None, longest=budget.longest)
    filled = np.full(budget.tokens, fill, dtype=np.int64)
    filled[: len(tokens)] = tokens
    return Packed(torch.from_numpy(filled), layout, len(tokens))


@dataclass(frozen=True, eq=False)
class Batch:
    """What one step of training sees: what is read, what is written so far, what comes next.

    ``source`` is absent where a model reads only what it has written (language models). ``weight``
    counts the goals that are not ``IGNORED``.
    """

    target: Packed
    goals_T: Tensor
    weight: int
    source: Packed | None = None

    def to(self, device: torch.device | str) -> "Batch":
        """The same batch on ``device``."""
        return Batch(
            self.target.to(device),
            moved_to(self.goals_T, device),
            self.weight,
            None if self.source is None else self.source.to(device),
        )

    @property
    def tokens(self) -> int:
        """Real tokens read and written, fill not counted."""
        return self.target.real + (0 if self.source is None else self.source.real)
