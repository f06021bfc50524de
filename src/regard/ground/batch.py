"""Sequences of token ids as packed tensors, with shapes free (CPU) or fixed (CUDA)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from regard.ground.layout import Layout

IGNORED = -100  # a goal that no loss counts


@dataclass(frozen=True, eq=False)
class Packed:
    """Tokens of several rows, end to end, and how they lie."""

    tokens_T: Tensor
    layout: Layout

    def to(self, device: torch.device | str) -> "Packed":
        """The same rows on ``device``."""
        return Packed(self.tokens_T.to(device, non_blocking=True), self.layout.to(device))


@dataclass(frozen=True)
class Shape:
    """The fixed numbers of a batch on CUDA: one compiled graph and one capture serve them all.

    What real rows leave free is filled by rows of their own, no longer than ``longest``, that no
    loss counts; ``rows`` counts real rows only.
    """

    tokens: int
    rows: int
    longest: int

    @property
    def all_rows(self) -> int:
        """Rows in the layout: real ones, fill, and empty ones."""
        return self.rows + -(-self.tokens // self.longest)

    def lengths(self, real: Sequence[int]) -> list[int]:
        """The lengths of real rows, then of the rows that fill the budget, then of empty ones."""
        if len(real) > self.rows or sum(real) > self.tokens or max(real, default=0) > self.longest:
            raise ValueError(f"rows of lengths {list(real)} do not fit {self}")
        full, rest = divmod(self.tokens - sum(real), self.longest)
        lengths = [*real, *[self.longest] * full, rest]
        return lengths + [0] * (self.all_rows - len(lengths))


def pack(sequences: Sequence[Sequence[int]], shape: Shape | None = None, fill: int = 0) -> Packed:
    """Rows laid end to end; with a ``shape``, filled up to it."""
    lengths = [len(sequence) for sequence in sequences]
    arrays = [np.asarray(sequence, dtype=np.int64) for sequence in sequences]
    tokens = np.concatenate(arrays) if arrays else np.zeros(0, dtype=np.int64)
    if shape is None:
        return Packed(torch.from_numpy(tokens), Layout.ragged(lengths))
    filled = np.full(shape.tokens, fill, dtype=np.int64)
    filled[: len(tokens)] = tokens
    layout = Layout.ragged(shape.lengths(lengths))
    return Packed(torch.from_numpy(filled), replace(layout, lengths=None, longest=shape.longest))


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
            self.goals_T.to(device, non_blocking=True),
            self.weight,
            None if self.source is None else self.source.to(device),
        )

    @property
    def tokens(self) -> int:
        """Real tokens read and written, fill not counted."""
        sides = [self.target] if self.source is None else [self.source, self.target]
        return self.weight + sum(int(side.layout.lengths_B.sum()) for side in sides[:-1])
