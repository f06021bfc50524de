"""Documents in streams: each stream reads successive rows, or parts of running text."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from regard.data.datasets.documents import DocumentDataset
from regard.data.pretraining.block_plans import BlockPlan, ChunkLengths, stream_chunks
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
    def fingerprint(self) -> str:
        return self.dataset.fingerprint

    def read(self, epoch: int, indices: np.ndarray) -> list[Any]:
        """Their targets are drawn anew in each epoch."""
        return self.dataset.read(epoch, self._numbers(indices))

    def lengths(self, objective: Any, epoch: int, indices: np.ndarray) -> np.ndarray:
        return self.dataset.lengths(objective, epoch, self._numbers(indices))

    def _numbers(self, indices: np.ndarray) -> np.ndarray:
        return indices % self.rows * self.chunks + indices // self.rows


@dataclass(frozen=True, eq=False)
class TextStreams(Streams):
    """Running text in streams: a batch reads the next tokens of each, and predicts those after.

    The plan of the dataset has the chunks of all streams in the order in which they are read.
    """

    ahead: ClassVar[int] = DocumentDataset.ahead
    dataset: DocumentDataset
    rows: int
    full_rate: float | None = None

    @classmethod
    def of(cls, dataset: DocumentDataset, rows: int, lengths: ChunkLengths) -> "TextStreams":
        """So many streams of all text of the dataset, in chunks of these lengths."""
        whole: Any = dataset.planned(0)

        def plan(epoch: int) -> BlockPlan:
            return stream_chunks(whole.stream, rows, lengths, (dataset.seed, epoch))

        chunks = replace(dataset, plan=plan)
        chunks.planned(0)  # a text may be too short
        return cls(chunks, rows, lengths.mean or None)

    @property
    def chunks(self) -> int:
        return self.chunks_in(0)

    def chunks_in(self, epoch: int) -> int:
        return len(self.dataset.planned(epoch)) // self.rows

    @property
    def fingerprint(self) -> str:
        return self.dataset.fingerprint

    def read(self, epoch: int, indices: np.ndarray) -> list[Any]:
        """The chunks of these numbers."""
        passages = self.dataset.planned(epoch).read(indices)
        return self.dataset.annotate(passages, indices, (self.dataset.seed, epoch))

    def lengths(self, objective: Any, epoch: int, indices: np.ndarray) -> np.ndarray:
        return self.dataset.planned(epoch).lengths[indices, None]
