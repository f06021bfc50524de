"""Ctrl-C and SIGTERM: how they end a command, before it has begun and while it runs.

While libraries are loaded an exception may be swallowed by one of them, and there is nothing to
clean up. A verb that runs ends by an exception, so that it removes its temporary files.
"""

import os
import signal
from typing import NoReturn

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Terminated(SystemExit):
    """SIGTERM has ended a verb; its code is the one that shells give."""

    code: int

    def __init__(self) -> None:
        super().__init__(128 + signal.SIGTERM)


def exit_on_interrupt() -> None:
    """From now on Ctrl-C and SIGTERM end the process at once, unless they are ignored.

    A launcher of several processes ends them by SIGTERM, also in a collective that never returns to
    Python: there the system's own action stays.
    """
    for number in SIGNALS[:1] if "WORLD_SIZE" in os.environ else SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _exit)


def raise_on_interrupt() -> None:
    """From now on Ctrl-C raises KeyboardInterrupt again, and SIGTERM ``Terminated``."""
    for number, handler in zip(SIGNALS, (signal.default_int_handler, _terminate), strict=True):
        if signal.getsignal(number) is _exit:
            signal.signal(number, handler)


def _exit(number: int, frame: object) -> NoReturn:
    os.write(2, b"regard: stopped\n")
    os._exit(128 + number)


def _terminate(number: int, frame: object) -> NoReturn:
    signal.signal(number, signal.SIG_DFL)  # a second one does not wait for the cleaning up
    raise Terminated
