"""Datasets of documents, whose targets are drawn anew in each epoch; as rows or streams."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import ceil
from typing import ClassVar, TypeVar, cast

import numpy as np

from regard.core.batch import BatchLimits
from regard.core.errors import BadInput
from regard.data.batches.sampler import Dataset, Streams
from regard.data.rows.block_plans import BlockPlan, ChunkLengths, stream_chunks
from regard.data.rows.documents import Documents
from regard.data.rows.row_plans import Passage, PlanRows

Item = TypeVar("Item")
MOST_PLANS = 64  # of a small corpus that is repeated in an epoch
Annotate = Callable[[Sequence[Passage], np.ndarray, tuple[int, ...]], list[Item]]
"""Rows, their numbers and a key (seed, epoch) → the same rows with targets."""


@dataclass(frozen=True, eq=False)
class DocumentDataset(Dataset[Item]):
    """Dataset of the rows of ``plan(epoch)``; targets depend on (seed, epoch, index) alone.

    Every epoch has as many indices as the first one has rows. If the plan of an epoch has more or
    fewer rows, some are skipped or read twice.
    """

    window: ClassVar[int] = 16_384  # each window ends in a batch that is not full
    ahead: ClassVar[int] = 64

    documents: Documents
    plan: PlanRows
    annotate: Annotate[Item]
    seed: int
    cached_plans: int = 2  # windows of the next epoch may be cut while rows of this one are read

    @cached_property
    def planned(self) -> PlanRows:
        """The function ``plan``, with the plans of the last epochs cached."""
        return lru_cache(maxsize=self.cached_plans)(self.plan)

    def in_rounds(self, rounds: float) -> "DocumentDataset[Item]":
        return replace(self, cached_plans=min(MOST_PLANS, ceil(2 * rounds) + 1))

    @cached_property
    def _count(self) -> int:
        return len(self.planned(0))

    def __len__(self) -> int:
        return self._count

    @property
    def fingerprint(self) -> str:
        return f"{len(self.documents)} documents, {self.documents.checksum:08x}"

    def read(self, epoch: int, indices: np.ndarray) -> list[Item]:
        passages = self.planned(epoch).read(self._plan_rows(epoch, indices))
        return self.annotate(passages, indices, (self.seed, epoch))

    def lengths(self, objective: object, epoch: int, indices: np.ndarray) -> np.ndarray:
        lengths = self.planned(epoch).lengths[self._plan_rows(epoch, indices)]
        return lengths if lengths.ndim == 2 else lengths[:, None]  # source and target, or one row

    def _plan_rows(self, epoch: int, indices: np.ndarray) -> np.ndarray:
        """The indices of these rows in the plan of the epoch."""
        return np.asarray(indices, np.int64) * len(self.planned(epoch)) // len(self)

    def read_all(self) -> list[Item]:
        """Every row of the first epoch."""
        starts = range(0, len(self), self.window)
        parts = (np.arange(first, min(first + self.window, len(self))) for first in starts)
        return [row for indices in parts for row in self.read(0, indices)]


@dataclass(frozen=True, eq=False)
class DocumentStreams(Streams[Item]):
    """Base class of datasets that read documents as streams."""

    ahead: ClassVar[int] = DocumentDataset.ahead
    dataset: DocumentDataset[Item]
    rows: int

    @property
    def fingerprint(self) -> str:
        return self.dataset.fingerprint


class RowStreams(DocumentStreams[Item]):
    """Streams of all rows, in order: one stream per row of a batch; rows left over are not read."""

    @classmethod
    def of(cls, dataset: DocumentDataset[Item], limits: BatchLimits) -> "RowStreams[Item]":
        """Make as many streams as fit into a batch."""
        rows = min(limits.rows, limits.tokens // limits.longest)
        if rows > len(dataset):
            few = f"data.train: {len(dataset):,} rows are too few for {rows} streams of text"
            raise BadInput(f"{few}; batches.rows limits their number")
        return cls(dataset, rows)

    @property
    def chunks(self) -> int:
        return len(self.dataset) // self.rows

    def read(self, epoch: int, indices: np.ndarray) -> list[Item]:
        return self.dataset.read(epoch, self._dataset_rows(indices))

    def lengths(self, objective: object, epoch: int, indices: np.ndarray) -> np.ndarray:
        return self.dataset.lengths(objective, epoch, self._dataset_rows(indices))

    def _dataset_rows(self, indices: np.ndarray) -> np.ndarray:
        return indices % self.rows * self.chunks + indices // self.rows


@dataclass(frozen=True, eq=False)
class TextStreams(DocumentStreams[Item]):
    """Streams of running text: a batch has the next chunk of each stream.

    The plan of the dataset has the chunks of all streams in the order in which they are read.
    """

    full_rate: float | None = None

    @classmethod
    def of(
        cls, dataset: DocumentDataset[Item], rows: int, lengths: ChunkLengths
    ) -> "TextStreams[Item]":
        """Cut the text of the dataset into ``rows`` streams of chunks with these lengths."""
        whole = cast(BlockPlan, dataset.planned(0))

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

    def read(self, epoch: int, indices: np.ndarray) -> list[Item]:
        passages = self.dataset.planned(epoch).read(indices)
        return self.dataset.annotate(passages, indices, (self.dataset.seed, epoch))

    def lengths(self, objective: object, epoch: int, indices: np.ndarray) -> np.ndarray:
        return self.dataset.planned(epoch).lengths[indices, None]
