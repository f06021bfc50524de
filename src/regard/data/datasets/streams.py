"""Rows of documents in streams: each stream reads successive rows."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from regard.data.datasets.documents import DocumentDataset
from regard.data.stream_sampler import Streams
from regard.ground.batch import BatchLimits
from regard.ground.errors import BadInput


@dataclass(frozen=True, eq=False)
class RowStreams(Streams):
    """All rows, in order, cut into as many streams as a batch has rows; the rest is not read."""

    ahead: ClassVar[int] = DocumentDataset.ahead
    dataset: DocumentDataset
    rows: int

    @classmethod
    def of(cls, dataset: DocumentDataset, limits: BatchLimits) -> "RowStreams":
        """As many streams as a batch has room for."""
        rows = min(limits.rows, limits.tokens // limits.longest)
        if rows > len(dataset):
            raise BadInput(
                f"data.train: {len(dataset):,} rows are too few for {rows} streams of text; "
                f"batches.rows limits their number"
            )
        return cls(dataset, rows)

    @property
    def chunks(self) -> int:
        return len(self.dataset) // self.rows

    @property
    def mark(self) -> str:
        return self.dataset.mark

    def read(self, epoch: int, indices: np.ndarray) -> list[Any]:
        """Their targets are drawn anew in each epoch."""
        return self.dataset.read(epoch, self._numbers(indices))

    def lengths(self, objective: Any, epoch: int, indices: np.ndarray) -> np.ndarray:
        return self.dataset.lengths(objective, epoch, self._numbers(indices))

    def _numbers(self, indices: np.ndarray) -> np.ndarray:
        return indices % self.rows * self.chunks + indices // self.rows
