"""The rows of each training step that this process reads; slow datasets are read ahead.

All processes draw the same batches from the same keys, and each reads only its own rows.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple, TypeVar

import numpy as np

from regard.data.batches.sampler import Cursor, SampledBatch
from regard.training.distributed import World
from regard.training.loop.events import Job

Item = TypeVar("Item")


class BatchSlice(NamedTuple):
    """Batch, or rows of one, run forward and backward at once; ``number`` seeds its dropout."""

    number: int
    examples: Sequence[tuple]
    begins: bool  # whether its streams start, so that carried state is reset


@dataclass(frozen=True, eq=False)
class StepRows:
    """One step: the slices of this process, the lengths of all rows, and the cursor after it.

    ``corpora`` counts the rows of each corpus, if several are mixed.
    ``weight`` is the weight of all targets of the step. If weights are only known after reading, it
    is the weight of this process's rows, and ``partial`` is set.
    """

    cursor: Cursor
    slices: list[BatchSlice]
    lengths: np.ndarray
    weight: np.ndarray
    partial: bool
    corpora: Mapping[str, int] = field(default_factory=dict)


def read_steps(job: Job, start: Cursor) -> Iterator[StepRows]:
    """Yield steps from ``start`` on, endlessly; slow datasets are read ahead."""
    steps, ahead = _steps(job, start), job.sampler.dataset.ahead
    return read_ahead(steps, ahead) if ahead else steps


def _steps(job: Job, start: Cursor) -> Iterator[StepRows]:
    batches = job.sampler.batches(start)
    while True:
        yield _step(job, list(islice(batches, job.recipe.batches.accumulate)))


def _step(job: Job, drawn: list[tuple[Cursor, SampledBatch]]) -> StepRows:
    batches = [batch for _, batch in drawn]
    splits = job.sampler.splits(len(batches), job.processes)
    slices = [
        BatchSlice(number, batches[which].read(rows), batches[which].begins)
        for number, which, rows in share(job.world, len(batches), splits)
    ]
    weights = [batch.weights(job.objective) for batch in batches]
    partial = any(weight is None for weight in weights)
    if partial:
        weight = _weight(job, [example for part in slices for example in part.examples], batches)
    else:
        weight = np.concatenate(weights).sum(axis=0)  # type: ignore[arg-type]
    lengths = np.concatenate([batch.lengths for batch in batches])
    indices = np.concatenate([batch.indices for batch in batches])
    corpora = job.sampler.dataset.count_corpora(indices)
    return StepRows(drawn[-1][0], slices, lengths, weight, partial, corpora)


def share(world: World, batches: int, splits: int) -> list[tuple[int, int, slice]]:
    """The slices of this process: a number that seeds dropout, a batch, and its rows.

    If the batches of a step can be divided among processes whole, dropout is the same as in one
    process. Rows are sorted by length, so slices of every n-th row have similar lengths.
    """
    return [
        (number, number // splits, slice(number % splits, None, splits))
        for number in range(world.rank, batches * splits, world.size)
    ]


def _weight(job: Job, examples: Sequence[tuple], batches: Sequence[SampledBatch]) -> np.ndarray:
    """The weight of examples; without examples, zeros of the same shape."""
    if examples:
        return np.array([job.objective.weight(example) for example in examples]).sum(axis=0)
    return np.zeros_like(job.objective.weight(batches[0].read(slice(1))[0]), dtype=np.float64)


def read_ahead(items: Iterator[Item], count: int) -> Iterator[Item]:
    """Items of an iterator, up to ``count`` of them computed ahead of time by a thread."""
    pool = ThreadPoolExecutor(1)
    waiting: deque[Future[Item]] = deque()
    try:
        while True:
            while len(waiting) < count:
                waiting.append(pool.submit(next, items))
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
