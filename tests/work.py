"""The work of a call, without a clock: on a busy machine seconds say nothing."""

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


def lines_run(call: Callable[[], Any]) -> int:
    """How many lines of Python a call runs: the same number on every machine."""
    count, before = 0, sys.gettrace()

    def trace(frame: Any, event: str, argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return count


@contextmanager
def ends(seconds: int = 300) -> Iterator[None]:
    """Fail instead of hanging, where the work takes a second if it is linear, and hours if not."""

    def stop(*_: Any) -> None:
        raise AssertionError(f"no end after {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
