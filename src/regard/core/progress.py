"""Progress of long work without steps, such as learning a vocabulary, for whoever listens."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from threading import Event, Thread
from time import monotonic
from typing import TypeVar

EVERY = 1.0  # seconds between two reports
Item = TypeVar("Item")


@dataclass(frozen=True)
class Progress:
    """The work, the number of inputs that it has read, and the seconds since its beginning."""

    work: str
    inputs: int
    seconds: float

    def __str__(self) -> str:
        return f"{self.work}: {self.inputs:,} texts read, {self.seconds:.0f} s"


_listener: ContextVar[Callable[[Progress], object] | None] = ContextVar("_listener", default=None)


@contextmanager
def progress_to(listener: Callable[[Progress], object]) -> Iterator[None]:
    """Long work of this thread reports its progress to a listener, which another thread calls."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


@contextmanager
def reporting(work: str, inputs: Iterable[Item]) -> Iterator[Iterator[Item]]:
    """Inputs of some work, whose progress is reported every second until its block ends."""
    listener, begin, ended, count = _listener.get(), monotonic(), Event(), 0

    def counted() -> Iterator[Item]:
        nonlocal count
        for count, item in enumerate(inputs, 1):  # noqa: B007
            yield item

    def report() -> None:
        while listener is not None and not ended.wait(EVERY):
            listener(Progress(work, count, monotonic() - begin))

    thread = Thread(target=report, daemon=True)
    if listener is not None:
        thread.start()
    try:
        yield counted()
    finally:
        ended.set()
        if listener is not None:
            thread.join()
