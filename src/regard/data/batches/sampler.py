"""Order of training examples, a function of (seed, epoch): a run stores only a cursor.

A Feistel network with cycle walking (Black & Rogaway, 2002) evaluates a permutation of range(n)
point by point, so that a run resumes at the cost of one window.

Contiguous streams of text are for truncated backpropagation through time (Williams & Peng, 1990):
all tokens, end to end, are cut into as many streams as a batch has rows. A batch holds the next
chunk of every stream, so a model that carries its state from batch to batch reads each stream in
order, and learns through one chunk at a time.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import gcd
from typing import ClassVar, Generic, Protocol, Self, TypeVar

import numpy as np

from regard.core.batch import Batch, BatchLimits
from regard.core.errors import BadInput
from regard.data.batches.packing import cut_batches
from regard.data.counter_rng import mixed
from regard.data.readers.fields import DropCounts

Item = TypeVar("Item")

ROUNDS = 8
FEW = 256


def shuffled(positions: np.ndarray, count: int, key: tuple[int, ...]) -> np.ndarray:
    """The elements at `positions` of a permutation of range(count), chosen by `key`."""
    values = np.asarray(positions, np.uint64)
    if len(values) and values.max() >= count:
        raise IndexError(f"position {values.max()} of {count}")
    keys = _round_keys(key)
    if count <= FEW:  # smaller networks are not random, cycle walking is slow
        every = _network(np.arange(FEW, dtype=np.uint64), FEW.bit_length() // 2, keys)
        return every[every < count][values].astype(np.int64)
    half = -(-(count - 1).bit_length() // 2)
    values = _network(values, half, keys)
    while (outside := values >= count).any():
        values[outside] = _network(values[outside], half, keys)
    return values.astype(np.int64)


def _network(values: np.ndarray, half: int, keys: Sequence[np.uint64]) -> np.ndarray:
    """A permutation of all integers of 2 × `half` bits."""
    shift, mask = np.uint64(half), np.uint64((1 << half) - 1)
    left, right = values >> shift, values & mask
    for key in keys:
        left, right = right, left ^ (mixed(right ^ key) & mask)
    return (left << shift) | right


def _round_keys(key: tuple[int, ...]) -> list[np.uint64]:
    digest = hashlib.blake2b(repr([*map(int, key)]).encode(), digest_size=8 * ROUNDS).digest()
    return [np.uint64(value) for value in np.frombuffer(digest, "<u8")]


class Collator(Protocol[Item]):
    """The part of an objective that measures, weighs and collates examples."""

    def length(self, example: Item) -> tuple[int, ...]: ...
    def weight(self, example: Item) -> float | np.ndarray: ...
    def gather(self, examples: Sequence[Item]) -> Sequence[Item]: ...
    def collate(self, examples: Sequence[Item]) -> Batch: ...
    def __hash__(self) -> int: ...


@dataclass(frozen=True)
class Cursor:
    """A position in endless training data: the next batch, in a window, in an epoch."""

    epoch: int = 0
    window: int = 0
    batch: int = 0


START = Cursor()


class Dataset(Generic[Item]):
    """Training examples by index, the same in every process; an epoch may draw them anew.

    A batch is made of examples of one ``window``, and ``ahead`` steps are read ahead by a thread.
    ``counted`` is the unit of the lengths of examples, such as "tokens".
    """

    window: ClassVar[int] = 65_536
    ahead: ClassVar[int] = 0
    counted: ClassVar[str] = "tok"

    def __len__(self) -> int:
        raise NotImplementedError

    @property
    def fingerprint(self) -> str:
        """Digest of the content: a resumed run compares it."""
        raise NotImplementedError

    @property
    def remarks(self) -> tuple[str, ...]:
        """What is printed at the start of a run."""
        return ()

    def read(self, epoch: int, indices: np.ndarray) -> Sequence[Item]:
        """Read these examples."""
        raise NotImplementedError

    def lengths(self, objective: Collator, epoch: int, indices: np.ndarray) -> np.ndarray | None:
        """The lengths of examples by an objective; None if they are known only after reading.

        If lengths and weights are known, a process reads its own rows only.
        """
        return None

    def weights(self, objective: Collator, epoch: int, indices: np.ndarray) -> np.ndarray | None:
        """The weights of examples by an objective; None if they are known only after reading."""
        return None

    def count_corpora(self, indices: np.ndarray) -> dict[str, int]:
        """Numbers of examples by corpus, if several are mixed."""
        return {}

    def in_rounds(self, rounds: float) -> "Dataset[Item]":
        """The dataset, to be read in this number of epochs at once."""
        return self

    def sampler(
        self, objective: Collator, limits: BatchLimits, seed: int, mixed: bool, dropped: DropCounts
    ) -> "BatchSampler[Item]":
        """Sampler of endless batches of the examples."""
        return Sampler(self, objective, limits, seed, mixed, dropped=dropped)


@dataclass(frozen=True, eq=False)
class SampledBatch(Generic[Item]):
    """Rows of a batch, longest first: `lengths` of each side, special tokens included.

    Examples are read on request, or already read if their lengths are known only then. A batch that
    `begins` restarts its streams.
    """

    dataset: Dataset[Item]
    epoch: int
    indices: np.ndarray
    lengths: np.ndarray
    examples: Sequence[Item] | None = None
    begins: bool = False

    def __len__(self) -> int:
        return len(self.indices)

    def read(self, rows: slice = slice(None)) -> Sequence[Item]:
        """The examples of some rows."""
        if self.examples is not None:
            return self.examples[rows]
        return self.dataset.read(self.epoch, self.indices[rows])

    def weights(self, objective: Collator[Item]) -> np.ndarray | None:
        """The weight of every row; None if it is known only after reading."""
        if self.examples is not None:
            return np.array([objective.weight(example) for example in self.examples])
        return self.dataset.weights(objective, self.epoch, self.indices)


@dataclass(frozen=True, eq=False)
class WindowBatches(Generic[Item]):
    """The batches of a window from a cursor on, as arrays: no object for each example.

    Batch i has the rows ``borders[i]`` to ``borders[i + 1]``. ``left_out`` is the number of
    examples of a window of the first epoch that are too long.
    """

    dataset: Dataset[Item]
    cursor: Cursor
    indices: np.ndarray
    lengths: np.ndarray
    borders: np.ndarray
    examples: Sequence[Item] | None = None
    left_out: int = 0

    def __len__(self) -> int:
        return len(self.borders) - 1

    def __iter__(self) -> Iterator[SampledBatch[Item]]:
        for first, end in pairwise(self.borders.tolist()):
            indices, lengths = self.indices[first:end], self.lengths[first:end]
            read = None if self.examples is None else self.examples[first:end]
            yield SampledBatch(self.dataset, self.cursor.epoch, indices, lengths, read)


@dataclass(frozen=True, eq=False)
class BatchSampler(Generic[Item]):
    """Base class of endless batches of a dataset; ``dropped`` counts examples left out."""

    dataset: Dataset[Item]
    dropped: DropCounts = field(default_factory=DropCounts, kw_only=True)

    @property
    def streams(self) -> int:
        """Number of streams, if each row continues a row of the previous batch, else 0."""
        return 0

    @property
    def windowed(self) -> "Sampler[Item] | None":
        """The sampler, if its windows can be cut in any order, by one process each."""
        return None

    def uncounted(self) -> Self:
        """Copy of the sampler with its own counts of dropped examples."""
        return replace(self, dropped=DropCounts())

    def rate_share(self, mean_length: float) -> float:
        """The factor of the learning rate for rows of this mean length."""
        return 1.0

    def splits(self, batches: int, processes: int) -> int:
        """The number of slices per batch, such that all processes get the same number."""
        return processes // gcd(batches, processes)

    def epoch_batches(self) -> int:
        """Number of batches of the first epoch; a later one may have a few more or fewer."""
        counted = enumerate(self.uncounted().batches(), start=1)
        return next(number for number, (cursor, _) in counted if cursor.epoch)

    def batches(self, start: Cursor = START) -> Iterator[tuple[Cursor, SampledBatch[Item]]]:
        """Yield each batch from `start` on, with the cursor after it."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class Sampler(BatchSampler[Item]):
    """Endless batches: each window of the shuffled epoch is packed by length, in random order.

    Examples longer than the limits allow are left out, and counted in the first epoch. `mixed` is
    as in `packing.training_batches`.
    """

    objective: Collator[Item]
    limits: BatchLimits
    seed: int
    mixed: bool = False

    @property
    def windowed(self) -> "Sampler[Item]":
        return self

    def batches(self, start: Cursor = START) -> Iterator[tuple[Cursor, SampledBatch[Item]]]:
        empty = 0  # successive windows without a batch
        for cursor in self.windows(start):
            window = self.cut_window(cursor)
            self.count_left_out(window.left_out)
            for number, batch in enumerate(window):
                yield self.after(cursor, number, len(window)), batch
            empty = 0 if len(window) else empty + 1
            self.check_empty(empty)

    @property
    def window_count(self) -> int:
        """The number of windows of an epoch."""
        return -(-len(self.dataset) // self.dataset.window)

    def windows(self, start: Cursor) -> Iterator[Cursor]:
        """Endless cursors of windows: ``start``, then the first batch of each window after it."""
        outside = not 0 <= start.window < max(self.window_count, 1)
        if outside or min(start.epoch, start.batch) < 0:
            raise BadInput(f"cannot resume at {start}: the data has {len(self.dataset):,} examples")
        if not self.window_count:
            raise BadInput("the training data has no examples")
        while True:
            yield start
            start = self.after(start, 0, 1)

    def after(self, cursor: Cursor, number: int, batches: int) -> Cursor:
        """The cursor after the batch ``number`` of all ``batches`` of a window from a cursor on."""
        if number + 1 < batches:
            return replace(cursor, batch=cursor.batch + number + 1)
        last = cursor.window + 1 == self.window_count
        return Cursor(cursor.epoch + 1) if last else Cursor(cursor.epoch, cursor.window + 1)

    def check_empty(self, windows: int) -> None:
        """Refuse data if as many successive windows as an epoch has are without a batch."""
        if windows >= self.window_count:
            limit = f"at most {self.limits.longest} tokens long (batches.longest)"
            raise BadInput(f"none of {len(self.dataset):,} examples is {limit}")

    def count_left_out(self, examples: int) -> None:
        """Count examples that are too long."""
        if examples:
            self.dropped[f"longer than {self.limits.longest} tokens"] += examples

    def cut_window(self, cursor: Cursor) -> WindowBatches[Item]:
        """The batches of a window from a cursor on, in the order in which they are read."""
        first = cursor.window * self.dataset.window
        count = len(self.dataset)
        positions = np.arange(first, min(first + self.dataset.window, count))
        indices = shuffled(positions, count, (self.seed, cursor.epoch))
        lengths, examples = self._measure(cursor.epoch, indices)
        short = np.flatnonzero(lengths.max(axis=1) <= self.limits.longest)
        packed, ends = cut_batches(lengths[short], self.limits, mixed=self.mixed)
        if cursor.batch > max(0, len(ends) - 1):
            raise BadInput(f"cannot resume at {cursor}: its window has {len(ends)} batches")
        key = (self.seed, cursor.epoch, cursor.window)
        order = shuffled(np.arange(len(ends)), len(ends), key)[cursor.batch :]
        sizes = np.diff(ends, prepend=0)[order]
        borders = np.concatenate([[0], sizes.cumsum()])
        moved = np.repeat(ends[order] - borders[1:], sizes)
        rows = short[packed[moved + np.arange(len(moved))]]
        read = None if examples is None else [examples[i] for i in rows]
        left_out = 0 if cursor.epoch else len(indices) - len(short)  # counted once
        window = (self.dataset, cursor, indices[rows], lengths[rows], borders)
        return WindowBatches(*window, read, left_out)

    def _measure(self, epoch: int, indices: np.ndarray) -> tuple[np.ndarray, Sequence[Item] | None]:
        """Lengths of these examples, and the examples if they had to be read."""
        lengths = self.dataset.lengths(self.objective, epoch, indices)
        if lengths is not None:
            return lengths, None
        examples = self.dataset.read(epoch, indices)
        return np.array([self.objective.length(example) for example in examples]), examples


class Streams(Dataset[Item]):
    """Base class of datasets of ``rows`` streams of ``chunks`` chunks each.

    Example i is a chunk of stream i % `rows`.
    """

    rows: int

    @property
    def chunks(self) -> int:
        """The number of chunks of each stream in the first epoch."""
        raise NotImplementedError

    def lengths(self, objective: object, epoch: int, indices: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def chunks_in(self, epoch: int) -> int:
        """The number of chunks of each stream in an epoch."""
        return self.chunks

    @property
    def full_rate(self) -> float | None:
        """The length of chunks with the full learning rate; None: any length."""
        return None

    def __len__(self) -> int:
        return self.rows * self.chunks

    def read_all(self) -> list[Item]:
        """All chunks of the first epoch, in the order in which they are read."""
        return list(self.read(0, np.arange(len(self))))

    def sampler(
        self, objective: object, limits: BatchLimits, seed: int, mixed: bool, dropped: DropCounts
    ) -> "StreamSampler[Item]":
        return StreamSampler(self, dropped=dropped)


@dataclass(frozen=True, eq=False)
class StreamSampler(BatchSampler[Item]):
    """Endless batches of all streams, chunk by chunk; every epoch restarts the streams."""

    dataset: Streams[Item]

    @property
    def streams(self) -> int:
        return self.dataset.rows

    def rate_share(self, mean_length: float) -> float:
        full = self.dataset.full_rate
        return 1.0 if full is None else mean_length / full

    def splits(self, batches: int, processes: int) -> int:
        if self.dataset.rows % processes:
            streams = f"{self.dataset.rows} streams, {processes} processes"
            raise BadInput(f"{streams}: each process needs the same number of streams")
        return processes

    def batches(self, start: Cursor = START) -> Iterator[tuple[Cursor, SampledBatch[Item]]]:
        if min(start.epoch, start.batch) < 0 or start.window:
            raise BadInput(f"cannot resume at {start}: the data has {self.dataset.chunks:,} chunks")
        while True:
            rows, chunks = np.arange(self.dataset.rows), self.dataset.chunks_in(start.epoch)
            if start.batch >= chunks:
                raise BadInput(f"cannot resume at {start}: the data has {chunks:,} chunks")
            for number in range(start.batch, chunks):
                indices = number * self.dataset.rows + rows
                lengths = self.dataset.lengths(None, start.epoch, indices)
                batch = SampledBatch(self.dataset, start.epoch, indices, lengths, begins=not number)
                last = number + 1 == chunks
                yield Cursor(start.epoch + last, 0, 0 if last else number + 1), batch
            start = Cursor(start.epoch + 1)
