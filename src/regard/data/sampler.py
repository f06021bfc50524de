"""The order of training examples, a function of (seed, epoch): a run stores its place, no state.

A Feistel network with cycle walking (Black & Rogaway, 2002) permutes range(n) point by point, so a
run resumes anywhere at the cost of reading one window.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

import numpy as np

from regard.data.counter_rng import mixed
from regard.data.packing import training_batches
from regard.data.sources import DropCounts
from regard.ground.batch import BatchLimits
from regard.ground.errors import BadInput

Example = TypeVar("Example")

ROUNDS = 8
FEW = 256


def shuffled(positions: np.ndarray, count: int, key: tuple[int, ...]) -> np.ndarray:
    """Where a shuffle of range(count), chosen by `key`, puts each of `positions`."""
    values = np.asarray(positions, np.uint64)
    if len(values) and values.max() >= count:
        raise IndexError(f"position {values.max()} of {count}")
    keys = _round_keys(key)
    if count <= FEW:  # a network of fewer bits would not be random, and a walk in this one long
        everyone = _network(np.arange(FEW, dtype=np.uint64), FEW.bit_length() // 2, keys)
        return everyone[everyone < count][values].astype(np.int64)
    half = -(-(count - 1).bit_length() // 2)
    values = _network(values, half, keys)
    while (outside := values >= count).any():
        values[outside] = _network(values[outside], half, keys)
    return values.astype(np.int64)


def _network(values: np.ndarray, half: int, keys: Sequence[np.uint64]) -> np.ndarray:
    """A permutation of all numbers of 2 × `half` bits."""
    shift, mask = np.uint64(half), np.uint64((1 << half) - 1)
    left, right = values >> shift, values & mask
    for key in keys:
        left, right = right, left ^ (mixed(right ^ key) & mask)
    return (left << shift) | right


def _round_keys(key: tuple[int, ...]) -> list[np.uint64]:
    digest = hashlib.blake2b(repr([*map(int, key)]).encode(), digest_size=8 * ROUNDS).digest()
    return [np.uint64(value) for value in np.frombuffer(digest, "<u8")]


@dataclass(frozen=True)
class Cursor:
    """A place in endless training data: the next batch, in a window, in an epoch."""

    epoch: int = 0
    window: int = 0
    batch: int = 0


START = Cursor()


@dataclass(frozen=True)
class Sampler(Generic[Example]):
    """Microbatches without end: windows of the shuffled epoch, each cut by length and shuffled.

    `read(epoch, indices)` gives the examples (the epoch, so that draws can differ), `length` the
    final length of each side of one. What exceeds the budget's `longest` is left out, and counted
    in the first epoch. `mixed` is as in `packing.cut`.
    """

    read: Callable[[int, np.ndarray], Sequence[Example]]
    length: Callable[[Example], tuple[int, ...]]
    count: int
    limits: BatchLimits
    seed: int
    window: int = 65_536
    mixed: bool = False
    dropped: DropCounts = field(default_factory=DropCounts)

    def batches(self, start: Cursor = START) -> Iterator[tuple[Cursor, list[tuple[int, Example]]]]:
        """Each batch from `start` on: the cursor after it, and its examples with their index."""
        windows = -(-self.count // self.window)
        outside = not 0 <= start.window < max(windows, 1)
        if outside or min(start.epoch, start.batch) < 0:
            raise BadInput(f"{start} lies outside of {self.count:,} examples")
        barren = 0  # windows in a row that gave no batch
        while barren < windows:
            batches = self._cut_window(start)
            if start.batch > max(0, len(batches) - 1):
                raise BadInput(f"{start} lies outside of its window, which has {len(batches)}")
            last = start.window + 1 == windows
            after = Cursor(start.epoch + 1) if last else Cursor(start.epoch, start.window + 1)
            for number in range(start.batch + 1, len(batches) + 1):
                cursor = replace(start, batch=number) if number < len(batches) else after
                yield cursor, batches[number - 1]
            barren = 0 if batches else barren + 1
            start = after
        raise BadInput(
            f"none of {self.count:,} examples is at most {self.limits.longest} tokens long"
        )

    def _cut_window(self, cursor: Cursor) -> list[list[tuple[int, Example]]]:
        first = cursor.window * self.window
        positions = np.arange(first, min(first + self.window, self.count))
        indices = shuffled(positions, self.count, (self.seed, cursor.epoch))
        examples = self.read(cursor.epoch, indices)
        lengths = np.array([self.length(example) for example in examples])
        short = np.flatnonzero(lengths.max(axis=1) <= self.limits.longest)
        if cursor.epoch == 0 and len(short) < len(indices):  # the same are too long every time
            reason = f"longer than {self.limits.longest} tokens"
            self.dropped[reason] += len(indices) - len(short)
        batches = training_batches(lengths[short], self.limits, mixed=self.mixed)
        key = (self.seed, cursor.epoch, cursor.window)
        order = shuffled(np.arange(len(batches)), len(batches), key)
        return [[(int(indices[i]), examples[i]) for i in short[batches[b]]] for b in order]
