"""Ctrl-C while libraries are loaded, when an exception may be swallowed by one of them."""

import os
import signal

from regard.ground.errors import INTERRUPTED


def exit_on_interrupt() -> None:
    """From now on Ctrl-C ends the process at once, unless it is ignored."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, _exit)


def raise_on_interrupt() -> None:
    """From now on Ctrl-C raises KeyboardInterrupt again."""
    if signal.getsignal(signal.SIGINT) is _exit:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _exit(*_: object) -> None:
    os.write(2, b"regard: stopped\n")
    os._exit(INTERRUPTED)  # nothing has begun: there is nothing to clean up
