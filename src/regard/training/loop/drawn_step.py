"""Training steps whose batches are drawn, and whose rows are read later or ahead of time."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import NamedTuple, TypeVar

import numpy as np

from regard.data.batches.sampler import Cursor, SampledBatch
from regard.training.distributed import World
from regard.training.loop.events import Job

Item = TypeVar("Item")
COUNTED = 3  # sums of a batch that are there for all data: rows, tokens, operations


class DrawnSlice(NamedTuple):
    """Rows of a batch that are run forward and backward at once, and a function that reads them.

    ``number`` seeds dropout; carried state is reset if the streams of the batch begin.
    """

    number: int
    read: Callable[[], Sequence[tuple]]
    begins: bool = False


@dataclass(frozen=True, eq=False)
class StepSums:
    """Sums over all batches of a step, the same in every process.

    ``tokens`` counts the tokens of all ``sides``, ``corpora`` the rows of each corpus, if several
    are mixed. ``weight`` is the weight of all targets; None if it is known only after reading.
    """

    sides: int
    rows: int
    tokens: int
    flops: float
    corpora: Mapping[str, int]
    weight: np.ndarray | None

    @property
    def mean_length(self) -> float:
        """The mean number of tokens of a row, of all sides."""
        return self.tokens / (self.rows * self.sides)


@dataclass(frozen=True, eq=False)
class DrawnStep:
    """One step: the slices of this process, the sums of all batches, and the cursor after it."""

    cursor: Cursor
    slices: Sequence[DrawnSlice]
    sums: StepSums


def draw_alone(job: Job, start: Cursor) -> Iterator[DrawnStep]:
    """Yield steps from ``start`` on, endlessly; this process draws the batches of all processes."""
    drawn, count = job.sampler.batches(start), job.recipe.batches.accumulate
    splits = job.sampler.splits(count, job.processes)
    while True:
        cursors, batches = zip(*islice(drawn, count), strict=True)
        slices = [
            DrawnSlice(number, partial(batches[which].read, rows), batches[which].begins)
            for number, which, rows in share(job.world, count, splits)
        ]
        sums = step_sums(job, batches[0].lengths.shape[1], batch_sums(job, batches))
        yield DrawnStep(cursors[-1], slices, sums)


def share(world: World, batches: int, splits: int) -> list[tuple[int, int, slice]]:
    """The slices of this process: a number that seeds dropout, a batch, and its rows.

    If the batches of a step can be divided among processes whole, dropout is the same as in one
    process. Rows are sorted by length, so slices of every n-th row have similar lengths.
    """
    return [
        (number, number // splits, slice(number % splits, None, splits))
        for number in range(world.rank, batches * splits, world.size)
    ]


def batch_sums(job: Job, batches: Iterable[SampledBatch]) -> np.ndarray:
    """Sums of each batch: ``COUNTED`` ones, rows of each corpus, weights of targets if known."""

    def sums(batch: SampledBatch) -> list[float]:
        counted = len(batch), batch.lengths.sum(), job.flops(batch.lengths)
        corpora, weights = batch.dataset.count_corpora(batch.indices), batch.weights(job.objective)
        weight = () if weights is None else np.atleast_1d(weights.sum(axis=0))
        return [*counted, *corpora.values(), *weight]

    rows = [*map(sums, batches)]
    return np.array(rows, np.float64).reshape(len(rows), -1 if rows else 0)


def step_sums(job: Job, sides: int, sums_BC: np.ndarray) -> StepSums:
    """The sums of a step, from the sums of its batches."""
    sums_C = sums_BC.sum(axis=0)
    corpora = [*job.sampler.dataset.count_corpora(np.zeros(0, np.int64))]
    of_corpora, weight = np.split(sums_C[COUNTED:], [len(corpora)])
    return StepSums(
        sides=sides,
        rows=int(sums_C[0]),
        tokens=int(sums_C[1]),
        flops=float(sums_C[2]),
        corpora=dict(zip(corpora, map(int, of_corpora), strict=True)),
        weight=(weight if len(weight) > 1 else weight[0]) if len(weight) else None,
    )


def read_ahead(reads: Iterator[Callable[[], Item]], count: int) -> Iterator[Item]:
    """Results of endless functions; a thread calls up to ``count`` of them ahead of time; 0: none.

    The functions themselves are taken from ``reads`` by the thread that uses the results.
    """
    if not count:
        yield from (read() for read in reads)
        return
    pool = ThreadPoolExecutor(1)
    waiting: deque[Future[Item]] = deque()
    try:
        while True:
            while len(waiting) < count:
                waiting.append(pool.submit(next(reads)))
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
