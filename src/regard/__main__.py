"""The command ``regard``, also as ``python -m regard``; Ctrl-C may stop it while it is loaded."""

import os
import sys

from regard.core import machine
from regard.core.errors import BAD_INPUT, BadInput
from regard.core.interrupt import exit_on_interrupt

# Standard streams that the caller may have closed (``<&-``, ``>&-``, ``2>&-``).
CLOSED = {"stdin": os.O_WRONLY, "stdout": os.O_RDONLY, "stderr": os.O_WRONLY}


def open_closed_streams() -> None:
    """Open the null device for closed streams, so that no other file gets their descriptors.

    Reading standard input or writing standard output then fails ("Bad file descriptor"); messages
    on standard error are lost.
    """
    for name, flag in CLOSED.items():
        if getattr(sys, name) is None:
            handle = os.open(os.devnull, flag)
            mode = "r" if name == "stdin" else "w"
            setattr(sys, name, open(handle, mode, encoding="utf-8", closefd=False))  # noqa: SIM115


def main() -> None:
    """Load the command line and run it."""
    open_closed_streams()
    exit_on_interrupt()  # until a verb begins
    try:
        machine.hidden()
    except BadInput as error:
        print(f"regard: {error}", file=sys.stderr)
        sys.exit(BAD_INPUT)
    from regard.cli import main as run

    run()


if __name__ == "__main__":
    main()
