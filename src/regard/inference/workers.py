"""Several processes that translate side by side: one thread each, on as many cores."""

import multiprocessing
import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any

import torch

from regard.ground.errors import BadInput

Job = tuple[Any, ...]
_work: Callable[..., Any] | None = None  # what this process does with a job


class Workers:
    """``count`` processes; each calls ``begin`` once, and what that answers on every job.

    They are started afresh, not forked: threads of this process do not survive a fork.
    """

    def __init__(self, count: int, begin: Callable[[], Callable[..., Any]]):
        if count < 1:
            raise BadInput(f"workers must be at least 1, not {count}")
        self.count = count
        self.pool = ProcessPoolExecutor(
            count,
            mp_context=multiprocessing.get_context("spawn"),
            initializer=_begin,
            initargs=(begin,),
        )

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, *_: object) -> None:
        self.pool.shutdown(cancel_futures=True)

    def map(self, jobs: Iterable[Job]) -> Iterator[Any]:
        """What comes of each job, in order."""
        try:
            yield from self.pool.map(_do, jobs)
        except BrokenProcessPool:
            raise BadInput("a worker died; is there memory for so many workers?") from None


def _begin(begin: Callable[[], Callable[..., Any]]) -> None:
    global _work
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that began them ends them
    torch.set_num_threads(1)
    _work = begin()


def _do(job: Job) -> Any:
    assert _work is not None
    return _work(*job)
