"""The command ``regard``, also as ``python -m regard``; Ctrl-C may stop it while it is loaded."""

import sys

from regard.ground import machine
from regard.ground.errors import BAD_INPUT, BadInput
from regard.ground.interrupt import exit_on_interrupt
from regard.ground.streams import open_closed_streams


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
