"""A verb of the command line, run in this process."""

import re
import shlex
import subprocess
from pathlib import Path

from typer.testing import CliRunner, Result

from regard.cli import app


def run(*arguments, code=0, stdin=None) -> Result:
    """What it said; its exit code must be ``code`` (None: any), and a traceback is passed on."""
    done = _invoke(arguments, stdin)
    assert code is None or done.exit_code == code, done.output
    return done


def run_line(line, *more) -> Result:
    """What a command of a page said, with ``more`` arguments, whatever its exit code.

    What stands before a pipe is run by a shell, and what the verb prints goes to ``> FILE``.
    """
    given, pipe, called = line.rpartition(" | ")
    verb, *file = re.split(r"\s>\s", called)
    name, *words = shlex.split(verb)
    assert name == "regard"
    text = subprocess.run(given, shell=True, capture_output=True, text=True, check=True).stdout
    done = _invoke((*words, *more), text if pipe else None)
    for path in file:
        Path(path.strip()).write_text(done.stdout)
    return done


def _invoke(arguments, stdin) -> Result:
    done = CliRunner().invoke(app, [str(one) for one in arguments], input=stdin)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done
