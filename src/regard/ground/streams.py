"""Standard streams that the caller has closed (``<&-``, ``>&-``, ``2>&-``)."""

import os
import sys

CLOSED = {"stdin": os.O_WRONLY, "stdout": os.O_RDONLY, "stderr": os.O_WRONLY}


def open_closed_streams() -> None:
    """Put something in the place of closed streams, so that no other file gets their number.

    Reading standard input or writing standard output is then the error that it is ("Bad file
    descriptor"); what is said on standard error is lost.
    """
    for name, flag in CLOSED.items():
        if getattr(sys, name) is None:
            handle = os.open(os.devnull, flag)
            mode = "r" if name == "stdin" else "w"
            setattr(sys, name, open(handle, mode, encoding="utf-8", closefd=False))  # noqa: SIM115
