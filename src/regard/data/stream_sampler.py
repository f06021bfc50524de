"""Contiguous streams of text, for truncated backpropagation through time (Williams & Peng, 1990).

All tokens, end to end, are cut into as many streams as a batch has rows. A batch holds the next
chunk of every stream, so a model that carries its state from batch to batch reads each stream in
order, and learns through one chunk at a time.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.data.files.fields import DropCounts
from regard.data.sampler import START, BatchSampler, Cursor, Dataset, SampledBatch
from regard.ground.batch import BatchLimits
from regard.ground.errors import BadInput


class Streams(Dataset):
    """A dataset of ``rows`` streams, of which each has as many ``chunks``.

    Example i is a chunk of stream i % `rows`.
    """

    rows: int

    @property
    def chunks(self) -> int:
        """Chunks of each stream."""
        raise NotImplementedError

    def lengths(self, objective: Any, epoch: int, indices: np.ndarray) -> np.ndarray:
        """Tokens of these chunks."""
        raise NotImplementedError

    def chunks_in(self, epoch: int) -> int:
        """The same of an epoch, where epochs differ."""
        return self.chunks

    @property
    def full_rate(self) -> float | None:
        """The length of chunks that are learned at the full rate, if it depends on the length."""
        return None

    def __len__(self) -> int:
        return self.rows * self.chunks

    def read_all(self) -> list[Any]:
        """All chunks of the first epoch, in the order in which they are read."""
        return list(self.read(0, np.arange(len(self))))

    def sampler(
        self, objective: Any, limits: BatchLimits, seed: int, mixed: bool, dropped: DropCounts
    ) -> "StreamSampler":
        """All streams at once, in their order."""
        return StreamSampler(self, dropped=dropped)


@dataclass(frozen=True, eq=False)
class StreamSampler(BatchSampler):
    """Endless batches of all streams, chunk by chunk; every epoch restarts the streams."""

    dataset: Streams

    @property
    def streams(self) -> int:
        """All rows of a batch."""
        return self.dataset.rows

    def rate_share(self, lengths: np.ndarray) -> float:
        """In proportion to the length of chunks, if the dataset draws it."""
        full = self.dataset.full_rate
        return 1.0 if full is None else float(lengths.mean()) / full

    def splits(self, batches: int, processes: int) -> int:
        """Each process keeps streams of its own, and their states."""
        if self.dataset.rows % processes:
            raise BadInput(f"{self.dataset.rows} streams cannot be shared by {processes} processes")
        return processes

    def batches(self, start: Cursor = START) -> Iterator[tuple[Cursor, SampledBatch]]:
        """The next chunk of every stream."""
        if min(start.epoch, start.batch) < 0 or start.window:
            raise BadInput(f"{start} lies outside of {self.dataset.chunks:,} chunks")
        while True:
            rows, chunks = np.arange(self.dataset.rows), self.dataset.chunks_in(start.epoch)
            if start.batch >= chunks:
                raise BadInput(f"{start} lies outside of {chunks:,} chunks")
            for number in range(start.batch, chunks):
                indices = number * self.dataset.rows + rows
                lengths = self.dataset.lengths(None, start.epoch, indices)
                batch = SampledBatch(
                    self.dataset, start.epoch, indices, lengths, begins=number == 0
                )
                last = number + 1 == chunks
                yield Cursor(start.epoch + last, 0, 0 if last else number + 1), batch
            start = Cursor(start.epoch + 1)
