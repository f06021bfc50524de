"""Long work that ends early: between its steps it asks whether anybody still waits for it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_is_unwanted: ContextVar[Callable[[], bool]] = ContextVar("_is_unwanted", default=lambda: False)


class CancelledWork(Exception):
    """Nobody waits for the result."""


@contextmanager
def cancelled_if(is_unwanted: Callable[[], bool]) -> Iterator[None]:
    """Work of this thread raises ``CancelledWork`` at its next step once it is unwanted."""
    token = _is_unwanted.set(is_unwanted)
    try:
        yield
    finally:
        _is_unwanted.reset(token)


def check_wanted() -> None:
    """Raise ``CancelledWork`` if nobody waits for the work of this thread."""
    if _is_unwanted.get()():
        raise CancelledWork("nobody waits for the result")
