"""Reading ahead: results of functions, in order, computed by a thread before they are used."""

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")


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
