"""Worker processes that decode images, in order, ahead of the model that reads them."""

import os
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import cached_property
from itertools import islice
from multiprocessing import get_context
from multiprocessing.context import BaseContext
from typing import Generic, TypeVar

from regard.core.errors import BadInput
from regard.core.workers import end_with_parent
from regard.images.decode import PixelBudget, share_budget

Item = TypeVar("Item")
Result = TypeVar("Result")

SPAWN = get_context("spawn")
AT_ONCE = 8  # images that a worker decodes before it answers
AHEAD = 4  # such jobs of each worker that are begun before their results are needed
FEW = 32  # images that are not worth the start of a process
MOST = 8  # workers, where nobody says how many
PIXELS = 1 << 27  # that all workers decode at once; each takes up to 8 bytes, before it is resized


def default_workers() -> int:
    """Default number of workers: one per core, at most ``MOST``."""
    return min(os.cpu_count() or 1, MOST)


class DecodingPool:
    """Pool of worker processes; with 0 workers, this process decodes.

    The first ``few`` images are decoded here in any case, before processes are started.
    """

    def __init__(self, workers: int, few: int = FEW):
        self.workers, self._few = workers, few

    def map(
        self,
        work: Callable[[Item], Result],
        items: Iterable[Item],
        ready: Callable[[float], bool] = lambda seconds: True,
    ) -> Iterator[Result]:
        """Apply ``work`` to each item, in order; few results are in memory at once.

        While results are due, it does not wait for items: ``ready`` tells whether one has arrived.
        """
        coming = iter(items)
        for item in islice(coming, max(self._few, 0) if self.workers else None):
            self._few -= 1
            yield work(item)
        try:
            yield from self._map_ahead(work, _Coming(coming, ready))
        except BrokenProcessPool:
            raise BadInput("a process that decodes images died: use fewer workers") from None

    def _map_ahead(
        self, work: Callable[[Item], Result], coming: "_Coming[Item]"
    ) -> Iterator[Result]:
        jobs = deque[Future[list[Result]]]()
        try:
            while True:
                while len(jobs) < AHEAD * self.workers and (some := coming.take(block=not jobs)):
                    jobs.append(self._pool.submit(_work, work, some))
                if not jobs:
                    break
                yield from jobs.popleft().result()
        finally:
            for job in jobs:
                job.cancel()
        if coming.error is not None:
            raise coming.error

    @cached_property
    def _pool(self) -> ProcessPoolExecutor:
        """Executor of spawned processes: threads of this process would not survive a fork."""
        return ProcessPoolExecutor(self.workers, SPAWN, initializer=_begin, initargs=(self.budget,))

    @cached_property
    def budget(self) -> "SharedBudget":
        """The limit of the pixels that the workers decode at once."""
        return SharedBudget(SPAWN)

    def close(self) -> None:
        """End the processes, if any were started."""
        if "_pool" in vars(self):
            self._pool.shutdown(cancel_futures=True)
            del self._pool

    def __enter__(self) -> "DecodingPool":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Coming(Generic[Item]):
    """Iterator over arriving items; an error is raised after the results of earlier items."""

    def __init__(self, items: Iterator[Item], ready: Callable[[float], bool]):
        self.items, self.ready = items, ready
        self.error: BadInput | None = None

    def take(self, *, block: bool) -> list[Item]:
        """The next items that have arrived; with ``block``, one at least, unless all are taken."""
        some: list[Item] = []
        try:
            while len(some) < AT_ONCE and ((block and not some) or self.ready(0)):
                if not (next_item := [*islice(self.items, 1)]):
                    break
                some += next_item
        except BadInput as error:
            self.error, self.items = error, iter(())
        return some


def _work(work: Callable[[Item], Result], items: list[Item]) -> list[Result]:
    return [*map(work, items)]


class SharedBudget(PixelBudget):
    """Limit of the pixels that all workers decode at once; a larger image is decoded alone."""

    def __init__(self, context: BaseContext, most: int = PIXELS):
        self.most, self.held = most, context.Value("q", 0, lock=False)
        self.changed = context.Condition()

    @contextmanager
    def reserved(self, pixels: int) -> Iterator[None]:
        with self.changed:
            fits = self.most - pixels
            self.changed.wait_for(lambda: not self.held.value or self.held.value <= fits)
            self.held.value += pixels
        try:
            yield
        finally:
            with self.changed:
                self.held.value -= pixels
                self.changed.notify_all()


def _begin(budget: PixelBudget) -> None:
    """Initialise a worker: share the budget of pixels, and end when the parent process ends.

    Ctrl-C is left to the parent.
    """
    share_budget(budget)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent()
