"""The rows of each training step that this process reads; slow datasets are read ahead."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from typing import NamedTuple

import numpy as np

from regard.data.batches.sampler import Cursor
from regard.training.loop.drawn_step import DrawnStep, StepSums, draw_alone, read_ahead
from regard.training.loop.events import Job
from regard.training.loop.shared_windows import draw_shared


class BatchSlice(NamedTuple):
    """Batch, or rows of one, run forward and backward at once; ``number`` seeds its dropout."""

    number: int
    examples: Sequence[tuple]
    begins: bool  # whether its streams start, so that carried state is reset


@dataclass(frozen=True, eq=False)
class StepRows:
    """One step: the slices of this process, sums over all rows, and the cursor after it.

    ``weight`` is the weight of all targets of the step. If weights are only known after reading, it
    is the weight of this process's rows, and ``partial`` is set.
    """

    cursor: Cursor
    slices: list[BatchSlice]
    sums: StepSums
    weight: np.ndarray
    partial: bool


def read_steps(job: Job, start: Cursor) -> Iterator[StepRows]:
    """Yield steps from ``start`` on, endlessly; slow datasets are read ahead.

    If processes share the work of drawing, they exchange in the thread that calls this function.
    """
    ahead, sampler = job.sampler.dataset.ahead, job.sampler.windowed
    if sampler is None or job.world.size == 1:
        steps = (_read(job, drawn) for drawn in draw_alone(job, start))
        return read_ahead(repeat(partial(next, steps)), ahead)
    shared = draw_shared(job, sampler, start)
    return read_ahead((partial(_read, job, drawn) for drawn in shared), ahead)


def _read(job: Job, drawn: DrawnStep) -> StepRows:
    slices = [BatchSlice(number, read(), begins) for number, read, begins in drawn.slices]
    weight = drawn.sums.weight
    own = _own_weight(job, drawn, slices) if weight is None else weight
    return StepRows(drawn.cursor, slices, drawn.sums, own, weight is None)


def _own_weight(job: Job, drawn: DrawnStep, slices: Sequence[BatchSlice]) -> np.ndarray:
    """The weight of the rows of this process; without rows, zeros of the same shape."""
    examples = [example for part in slices for example in part.examples]
    if examples:
        return np.array([job.objective.weight(example) for example in examples]).sum(axis=0)
    (example,) = job.sampler.dataset.read(drawn.cursor.epoch, np.zeros(1, np.int64))
    return np.zeros_like(job.objective.weight(example), dtype=np.float64)
