"""The command ``regard``, also as ``python -m regard``; Ctrl-C may stop it while it is loaded."""

import os
import signal
import sys

from regard.ground import machine
from regard.ground.errors import BAD_INPUT, INTERRUPTED, BadInput


def main() -> None:
    """Load the command line and run it."""
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, _leave)  # a library that is loaded may swallow an exception
    _check_switches()
    from regard.cli import main as run

    try:
        signal.signal(signal.SIGINT, before)
        run()
    except KeyboardInterrupt:
        _leave()


def _check_switches() -> None:
    try:
        machine.hidden()
    except BadInput as error:
        print(f"regard: {error}", file=sys.stderr)
        sys.exit(BAD_INPUT)


def _leave(*_: object) -> None:
    os.write(2, b"regard: stopped\n")
    os._exit(INTERRUPTED)  # nothing has begun: there is nothing to clean up


if __name__ == "__main__":
    main()
