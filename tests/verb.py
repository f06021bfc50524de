"""A verb of the command line, run in this process."""

from typer.testing import CliRunner, Result

from regard.cli import app


def run(*arguments, code=0, stdin=None) -> Result:
    """What it said; its exit code must be ``code``, and a traceback is passed on."""
    done = CliRunner().invoke(app, [str(one) for one in arguments], input=stdin)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == code, done.output
    return done
