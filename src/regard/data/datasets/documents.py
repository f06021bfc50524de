"""Rows of documents, with targets that are drawn anew in each epoch."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import numpy as np

from regard.data.pretraining.documents import Documents
from regard.data.pretraining.row_plans import Passage, PlanRows
from regard.data.sampler import Dataset

Annotate = Callable[[Sequence[Passage], np.ndarray, tuple[int, ...]], list[Any]]
"""Rows, their numbers and a key (seed, epoch) → the same rows with targets."""


@dataclass(frozen=True, eq=False)
class DocumentDataset(Dataset):
    """The rows of ``plan(epoch)``; their targets follow from (seed, epoch, number) alone.

    All epochs have as many rows as the first one. The rows of a plan with more or fewer are spread
    over these numbers: some are skipped, or read twice.
    """

    window: ClassVar[int] = 16_384  # each window ends in a batch that is not full
    ahead: ClassVar[int] = 64

    documents: Documents
    plan: PlanRows
    annotate: Annotate
    seed: int

    @cached_property
    def planned(self) -> PlanRows:
        """``plan``, with a cache of one epoch."""
        return lru_cache(maxsize=1)(self.plan)

    @cached_property
    def _count(self) -> int:
        return len(self.planned(0))

    def __len__(self) -> int:
        return self._count

    @property
    def fingerprint(self) -> str:
        """How many documents, and a checksum of their content."""
        return f"{len(self.documents)} documents, {self.documents.checksum:08x}"

    def read(self, epoch: int, indices: np.ndarray) -> list[Any]:
        """Rows as a model reads them in this epoch; the targets of all are drawn at once."""
        passages = self.planned(epoch).read(self._numbers(epoch, indices))
        return self.annotate(passages, indices, (self.seed, epoch))

    def lengths(self, objective: Any, epoch: int, indices: np.ndarray) -> np.ndarray:
        """Rows are planned by their lengths."""
        return self.planned(epoch).lengths[self._numbers(epoch, indices), None]

    def _numbers(self, epoch: int, indices: np.ndarray) -> np.ndarray:
        """The numbers of these rows in the plan of the epoch."""
        return np.asarray(indices, np.int64) * len(self.planned(epoch)) // len(self)

    def read_all(self, epoch: int = 0) -> list[Any]:
        """Every row of an epoch."""
        starts = range(0, len(self), self.window)
        parts = (np.arange(first, min(first + self.window, len(self))) for first in starts)
        return [row for indices in parts for row in self.read(epoch, indices)]
