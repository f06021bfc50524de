"""Handling of Ctrl-C, SIGTERM and SIGHUP, before a command has begun and while it runs.

While libraries are loaded, they may swallow an exception, and there is nothing to clean up: the
process ends at once. A running command ends by an exception, so that it removes its temporary
files.
"""

import os
import signal
from contextlib import suppress
from typing import NoReturn

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Terminated(SystemExit):
    """Exit after SIGTERM or SIGHUP, with the exit code that shells give."""

    code: int

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)


def signals_in_use() -> tuple[signal.Signals, ...]:
    """The signals that end a command, without those that its caller ignores, as ``nohup`` does."""
    return tuple(number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN)


def exit_on_interrupt() -> None:
    """From now on Ctrl-C, SIGTERM and SIGHUP end the process at once, unless they are ignored.

    A launcher of several processes ends them by SIGTERM, even in a collective that never returns to
    Python: in these processes SIGTERM keeps the action of the operating system.
    """
    for number in signals_in_use():
        if number == signal.SIGINT or "WORLD_SIZE" not in os.environ:
            signal.signal(number, _exit)


def raise_on_interrupt() -> None:
    """From now on Ctrl-C raises KeyboardInterrupt again, SIGTERM and SIGHUP ``Terminated``."""
    for number in SIGNALS:
        if signal.getsignal(number) is _exit:
            is_ctrl_c = number == signal.SIGINT
            signal.signal(number, signal.default_int_handler if is_ctrl_c else _terminate)


def _exit(number: int, frame: object) -> NoReturn:
    with suppress(OSError):  # the terminal may be gone
        os.write(2, b"regard: stopped\n")
    os._exit(128 + number)


def _terminate(number: int, frame: object) -> NoReturn:
    signal.signal(number, signal.SIG_DFL)  # a second one does not wait for the cleaning up
    raise Terminated(number)
