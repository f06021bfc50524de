"""Floor 6: the command line. One verb a file, a plain function each, put together here."""

import os
import sys
from typing import Any

import typer
from typer.core import TyperGroup

from regard import __version__
from regard.cli.align import align
from regard.cli.bleu import bleu
from regard.cli.console import complain
from regard.cli.convert import convert
from regard.cli.embed import embed
from regard.cli.evaluate import evaluate
from regard.cli.fill import fill
from regard.cli.look import look
from regard.cli.papers import papers
from regard.cli.predict import predict
from regard.cli.recency import recency
from regard.cli.recipes import recipes
from regard.cli.score import score
from regard.cli.sweep import sweep
from regard.cli.tour import tour
from regard.cli.train import train
from regard.cli.translate import translate
from regard.cli.tree import tree
from regard.ground.errors import BAD_INPUT, INTERRUPTED, BadInput, one_line

# Click's, or typer's copy of it, which is another class than click's.
UsageError: Any = next(one for one in typer.BadParameter.__mro__ if one.__name__ == "UsageError")


class Verbs(TyperGroup):
    """All verbs; what a user got wrong is said in one line."""

    def invoke(self, ctx):
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
            return result
        except UsageError as error:
            error.message = one_line(error.message)
            raise
        except BadInput as error:
            complain(str(error))
            raise typer.Exit(BAD_INPUT) from None
        except KeyboardInterrupt:
            complain("stopped")
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:  # the reader has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(0) from None
        except OSError as error:
            complain(one_line(f"{error.filename or 'a file'}: {error.strerror or error}"))
            raise typer.Exit(BAD_INPUT) from None


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"regard {__version__}")
        raise typer.Exit


app = typer.Typer(
    cls=Verbs,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def _regard(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version."
    ),
) -> None:
    """Train, run, measure and open up attention models."""


for verb in (
    tour,
    train,
    translate,
    predict,
    fill,
    embed,
    score,
    evaluate,
    bleu,
    sweep,
    align,
    look,
    tree,
    recency,
    papers,
    recipes,
    convert,
):
    app.command()(verb)


def main() -> None:
    """The command ``regard``."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="utf-8", errors="backslashreplace")  # type: ignore[union-attr]
    try:
        app()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
