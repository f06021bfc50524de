"""Several processes share the work of cutting the data into batches.

Of as many successive windows as there are processes, each cuts one. Then all learn the sums of
every batch, and each gets the indices of its own rows: what a process does for a step does not grow
with the number of processes. The batches are those that one process cuts.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice, repeat
from typing import NamedTuple

import numpy as np
import torch

from regard.data.batches.sampler import Cursor, Sampler, WindowBatches
from regard.training.loop.drawn_step import DrawnSlice, DrawnStep, batch_sums, read_ahead, step_sums
from regard.training.loop.events import Job

ROUNDS_AHEAD = 2  # whose windows are cut while rows of earlier ones are read


class Round(NamedTuple):
    """Cursors of as many windows as there are processes; the window of this process, and the sums
    of its batches.
    """

    cursors: Sequence[Cursor]
    window: WindowBatches
    sums_BC: np.ndarray


def draw_shared(job: Job, sampler: Sampler, start: Cursor) -> Iterator[DrawnStep]:
    """Yield steps from ``start`` on, endlessly; all processes must take the same ones."""
    count = job.recipe.batches.accumulate
    splits, empty = sampler.splits(count, job.processes), 0
    drawn, sums_BC = 0, np.zeros((0, 0))  # batches of earlier steps, and sums of the next ones
    rounds = deque[Iterator[DrawnSlice]]()
    slices = _joined(rounds)
    for own_round in _rounds(job, sampler, start):
        windows = SharedWindows.gather(job, sampler, own_round)
        sampler.count_left_out(windows.left_out)
        for batches in windows.counts_W.tolist():
            empty = 0 if batches else empty + 1
            sampler.check_empty(empty)
        if not len(windows):
            continue
        rounds.append(windows.own_slices(drawn + len(sums_BC), count, splits))
        sums_BC = np.concatenate([sums_BC, windows.sums_BC]) if len(sums_BC) else windows.sums_BC
        while len(sums_BC) >= count:
            last = len(windows) - len(sums_BC) + count - 1
            own = [*islice(slices, count * splits // job.world.size)]
            sums = step_sums(job, windows.window.lengths.shape[1], sums_BC[:count])
            yield DrawnStep(windows.cursor_after(last), own, sums)
            drawn, sums_BC = drawn + count, sums_BC[count:]


def _rounds(job: Job, sampler: Sampler, start: Cursor) -> Iterator[Round]:
    """Endless rounds; if the dataset is read ahead, windows are cut ahead, too."""
    cursors, world = sampler.windows(start), job.world

    def cut() -> Round:
        of_round = [*islice(cursors, world.size)]
        window = sampler.cut_window(of_round[world.rank])
        # Processes read their own rows later: what was read to measure lengths is not kept.
        return Round(of_round, replace(window, examples=None), batch_sums(job, window))

    return read_ahead(repeat(cut), ROUNDS_AHEAD if sampler.dataset.ahead else 0)


def _joined(queue: deque[Iterator[DrawnSlice]]) -> Iterator[DrawnSlice]:
    """Slices of iterators that are appended to a queue, one iterator after another."""
    while True:
        yield from queue.popleft()


@dataclass(frozen=True, eq=False)
class SharedWindows:
    """Successive windows, each cut by another process, and the sums of all their batches."""

    job: Job
    sampler: Sampler
    cursors: Sequence[Cursor]
    window: WindowBatches  # of this process
    counts_W: np.ndarray  # batches of each window
    sums_BC: np.ndarray
    left_out: int

    def __len__(self) -> int:
        return len(self.sums_BC)

    @classmethod
    def gather(cls, job: Job, sampler: Sampler, own: Round) -> "SharedWindows":
        """Gather the sums of the windows of all processes."""
        cursors, window, own_BC = own
        job.world.begin_turn()
        sizes_W = _all_gather(job, np.array([*own_BC.shape, window.left_out]))
        counts_W, most = sizes_W[:, 0], sizes_W[:, :2].max(axis=0)
        padded_BC = np.zeros(most)
        padded_BC[: len(own_BC), : own_BC.shape[1]] = own_BC
        sums_WBC = _all_gather(job, padded_BC)
        sums_BC = sums_WBC[np.arange(most[0]) < counts_W[:, None]]
        return cls(job, sampler, cursors, window, counts_W, sums_BC, int(sizes_W[:, 2].sum()))

    def own_slices(self, before: int, count: int, splits: int) -> Iterator[DrawnSlice]:
        """The slices of this process; ``before`` batches come before the first window.

        A slice is every n-th row of one of ``count`` batches of a step, n is ``splits``. Slices of
        all batches are numbered, and slice i is of process i % size.
        """
        world, dataset = self.job.world, self.window.dataset
        first, end = before * splits, (before + len(self.sums_BC)) * splits
        number_S = np.arange(first + (world.rank - first) % world.size, end, world.size)
        batch_S = number_S // splits - before
        rows_S = self.sums_BC[batch_S, 0].astype(np.int64)
        size_S = -(-(rows_S - number_S % splits) // splits)
        window_S = self._window_of(batch_S)
        received_W = np.bincount(window_S, size_S, world.size).astype(np.int64)
        indices = self._exchange(before, splits, received_W)
        epochs = [cursor.epoch for cursor in self.cursors]
        arrays = number_S % (count * splits), window_S, size_S, size_S.cumsum()
        slices = zip(*(map(int, array) for array in arrays), strict=True)
        return (
            DrawnSlice(number, partial(dataset.read, epochs[window], indices[end - size : end]))
            for number, window, size, end in slices
        )

    def _exchange(self, before: int, splits: int, received_W: np.ndarray) -> np.ndarray:
        """Indices of the rows of this process, slice by slice; others get theirs from my window."""
        world, window = self.job.world, self.window
        first = before + int(self.counts_W[: world.rank].sum())
        batch_N = np.repeat(np.arange(len(window)), np.diff(window.borders))
        row_N = np.arange(len(batch_N)) - window.borders[batch_N]
        number_N = (first + batch_N) * splits + row_N % splits
        owner_N = number_N % world.size
        sent_N = torch.from_numpy(window.indices[np.lexsort((number_N, owner_N))])
        sizes_W = np.bincount(owner_N, minlength=world.size)
        return world.all_to_all(sent_N, sizes_W.tolist(), received_W.tolist()).numpy()

    def cursor_after(self, batch: int) -> Cursor:
        """The cursor after a batch of the windows."""
        window = int(self._window_of(batch))
        number = batch - int(self.counts_W[:window].sum())
        return self.sampler.after(self.cursors[window], number, int(self.counts_W[window]))

    def _window_of(self, batch: np.ndarray | int) -> np.ndarray:
        return np.searchsorted(self.counts_W.cumsum(), batch, side="right")


def _all_gather(job: Job, array: np.ndarray) -> np.ndarray:
    """Arrays of the same shape, of all processes."""
    return torch.stack(job.world.all_gather(torch.from_numpy(array))).numpy()
