"""Floor 6: the command line. A verb is the function of its name in its module in ``verbs``.

A module is imported when its verb is called or its help is printed, and torch when the verb runs;
``regard --help`` needs only the table below.
"""

import errno
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial, update_wrapper
from importlib import import_module
from io import TextIOWrapper
from typing import Any

import typer
from typer.core import TyperGroup

from regard import __version__
from regard.cli.declare import SectionedCommand, command_signature, in_blocks
from regard.cli.io.console import complain, warnings_as_notes
from regard.core.catalogue import Catalogue, Entry
from regard.core.errors import BAD_INPUT, INTERRUPTED, BadInput, one_line
from regard.core.interrupt import Terminated, raise_on_interrupt

# Verbs by group, each with the first line of its docstring.
GROUPS = {
    "Run": {
        "translate": "Translate text, one sentence per line.",
        "generate": "Continue prompts, one per line or typed at a terminal.",
        "predict": "Print labels, tags, roles, answers, choices or clusters.",
        "fill": "Fill the [MASK] tokens of each line with probable words.",
        "embed": "Print one vector for each line.",
        "score": "Print the log-probability of each text, or translation.",
        "retrieve": "Rank documents for queries, and score the ranking by judgements.",
        "mine": "Print pairs of texts of like meaning, the most alike first.",
    },
    "Train": {
        "tour": "Train, measure and inspect a small model on a toy language.",
        "new": "Write a first recipe for your data.",
        "prepare": "Tokenise the data of a recipe, for training with --prepared.",
        "train": "Train a model by a recipe and check the expected score.",
        "tune": "Search for the best settings of a recipe.",
        "curves": "Draw the loss, learning rate and metrics of training runs.",
        "recipes": "List the recipes that come with regard, or print one of them.",
    },
    "Measure": {
        "evaluate": "Score a model on the test set of a recipe.",
        "compare": "Compare two models by paired significance tests.",
        "bleu": "Score translations against references: BLEU, chrF and TER.",
        "sweep": "Re-rank n-best lists by every length rule and coverage weight.",
        "similarity": "Score word vectors on word similarity and analogies.",
        "study": "Train the models of a study and print its table.",
        "agreement": "Measure whether language models choose the verb of the subject.",
        "align": "Print word alignments read from cross-attention.",
    },
    "Inspect": {
        "look": "Show the attention weights of a model for one text or image.",
        "frames": "Show the predicates of a sentence and their arguments.",
        "attribute": "Show on which words or patches a prediction depends.",
        "heads": "Report what each attention head does.",
        "formation": "Show how attention heads form during training.",
        "ablate": "Score a model without each of its heads or layers.",
        "steer": "Compute a steering vector from two files of texts.",
        "tree": "Show a beam search as a tree, with the reason for every pruning.",
        "stream": "Show what heads and layers contribute to a prediction.",
        "patch": "Patch values of one input into the run of another.",
        "neighbours": "Print the words nearest to a word, or images to an image.",
        "prune": "Remove the attention heads that a model needs least.",
        "probe": "Probe what the states of each layer tell of words.",
        "recency": "Measure how strongly a model depends on distant words.",
        "check": "Check a published finding with a model.",
        "papers": "List papers with parameter counts, show one, or compare two.",
        "cite": "Print BibTeX entries of papers, of models or of regard.",
    },
    "Convert": {"convert": "Convert a model folder to another format."},
    "Serve": {"serve": "Serve models over HTTP.", "studio": "Open models up in the browser."},
}
WITHOUT_TORCH = ("new", "recipes", "bleu", "papers", "cite", "curves", "check")
NOT_WRITTEN = (errno.EBADF, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
VERBS = Catalogue[Callable[..., None]](
    {
        name: Entry(f"regard.cli.verbs.{name}:{name}", summary)
        for verbs in GROUPS.values()
        for name, summary in verbs.items()
    }
)
new_app = partial(typer.Typer, pretty_exceptions_enable=False, rich_markup_mode=None)

# The class of click, or of the copy of click in typer.
UsageError: Any = next(base for base in typer.BadParameter.__mro__ if base.__name__ == "UsageError")


class LazyCommands(Mapping[str, object]):
    """All verbs as commands, each imported when it is looked up."""

    def __getitem__(self, name: str) -> object:
        verb, app = VERBS[name], new_app(add_completion=False)

        def run(**options: Any) -> None:
            if name not in WITHOUT_TORCH:
                import_module("regard.api")
            raise_on_interrupt()
            if options.get("out") is not None:
                import_module("regard.experiments.bulk.file_list").check_apart(options)
            verb(**in_blocks(verb, options["context"], options))

        update_wrapper(run, verb)
        shown = vars(run)["__signature__"] = command_signature(verb)
        run.__annotations__ = {name: each.annotation for name, each in shown.parameters.items()}
        app.command(name, cls=SectionedCommand)(run)
        return typer.main.get_command(app)

    def __iter__(self) -> Iterator[str]:
        return iter(VERBS)

    def __len__(self) -> int:
        return len(VERBS)


class Verbs(TyperGroup):
    """Group of all verbs; errors of the user are printed in one line."""

    def __init__(self, **settings: Any):
        super().__init__(**settings)
        self.commands: Any = LazyCommands()

    def list_commands(self, ctx):
        return [*VERBS]

    def format_commands(self, ctx, formatter):
        """List the verbs by group, with whole summaries."""
        width = max(map(len, VERBS))
        for group, verbs in GROUPS.items():
            with formatter.section(group):
                formatter.write_dl([(name.ljust(width), text) for name, text in verbs.items()])

    def invoke(self, ctx):
        try:
            with warnings_as_notes():
                result = super().invoke(ctx)
            sys.stdout.flush()
            return result
        except UsageError as error:
            error.message = one_line(error.message)
            raise
        except BadInput as error:
            complain(error)
            raise typer.Exit(error.code) from None
        except (KeyboardInterrupt, Terminated) as error:
            complain("stopped")
            code = getattr(error, "code", INTERRUPTED)
            raise typer.Exit(code) from None
        except BrokenPipeError:  # the reader has closed the pipe
            _discard_output()
            raise typer.Exit(0) from None
        except OSError as error:
            where = error.filename or "a file"
            if error.filename is None and error.errno in NOT_WRITTEN:  # files have names
                where = "standard output"
                _discard_output()
            complain(one_line(f"{where}: {error.strerror or error}"))
            raise typer.Exit(BAD_INPUT) from None


def _discard_output() -> None:
    """Send standard output to the null device, with text that Python flushes at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"regard {__version__}")
        raise typer.Exit


HELP = {"help_option_names": ["-h", "--help"]}
app = new_app(cls=Verbs, no_args_is_help=True, context_settings=HELP)


@app.callback()
def _regard(
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Print the version."
    ),
) -> None:
    """Train, run, measure and inspect attention models."""


def main() -> None:
    """Run the command ``regard``."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # not so in a notebook
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        app()
    except KeyboardInterrupt:
        complain("stopped")
        sys.exit(INTERRUPTED)
