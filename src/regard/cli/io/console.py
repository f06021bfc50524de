"""Printing: results and tables go to standard output, messages to standard error."""

import shlex
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from rich.console import Console
from rich.text import Text

from regard.core.errors import BadInput, DataWarning
from regard.core.files import json_line, write_bytes
from regard.experiments.result import ExperimentResult, OutputTable, TableFormat, lines_of

if TYPE_CHECKING:
    from regard.experiments.notes import Note
    from regard.training.loop.events import Event
    from regard.views.view_record import ViewRecord


class Output(Console):
    """Console that raises BrokenPipeError when the reader of its output has closed the pipe."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


OF_ARGUMENTS = {  # names of options that are others
    "columns": "column",
    "on_dev": "dev",
    "size": "beam",
    "texts": "text",
    "as_json": "json",
    "with_tables": "explain",
}
OUT = Output(highlight=False, soft_wrap=True)
ERR = Console(stderr=True, highlight=False, soft_wrap=True)


def flag(argument: str) -> str:
    """The option of an argument of the library: --max-length."""
    return "--" + OF_ARGUMENTS.get(argument, argument).replace("_", "-")


def complain(error: str | BadInput) -> None:
    """Print an error in one line on standard error."""
    message = error if isinstance(error, str) else error.text(argument=flag)
    note("regard: " + " ".join(message.split()))


def note(message: str) -> None:
    """Print a message on standard error; if writing fails, it is lost."""
    with suppress(OSError):
        ERR.print(message, markup=False)


def show_event(event: "Note | Event") -> None:
    """Print the lines of an event of long work on standard error."""
    for line in event.lines():
        show_line(event, line)


def show_line(event: "Note | Event", line: str) -> None:
    """Print a line of an event, or of an error that does not end the work."""
    (complain if event.error else note)(line)


@contextmanager
def warnings_as_notes() -> Iterator[None]:
    """Print each warning about data once, as a message; other warnings are printed as usual."""
    with warnings.catch_warnings():
        warnings.simplefilter("default", DataWarning)
        usual = warnings.showwarning

        def show(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if issubclass(category, DataWarning):
                note(str(message))
            else:
                usual(message, category, filename, lineno, file, line)

        warnings.showwarning = show
        yield


def print_json(*records: Mapping[str, object]) -> None:
    """Print records on standard output, each as a line of JSON."""
    sys.stdout.writelines(map(json_line, records))


def print_line(text: str) -> None:
    """Print a line of text on standard output, without markup."""
    sys.stdout.write(text + "\n")


def write_page(path: Path | None, draw: Callable[[], str]) -> None:
    """Write a text (HTML, lines) to a file; without a path, do nothing."""
    write_picture(path, lambda: draw().encode())


def write_drawing(path: Path | None, draw: Callable[[], str]) -> None:
    """Write a drawing to a file: SVG, or PNG or PDF by its suffix; without a path, do nothing."""
    from regard.views.markup import rendered_drawing

    write_picture(path, lambda: rendered_drawing(draw, path.suffix if path else ""))


def write_drawings(path: Path, drawings: Mapping[str, str]) -> None:
    """Write drawings to a file; several have files of their own, FILE-NAME.svg."""
    for name, drawing in drawings.items():
        several = len(drawings) > 1
        file = path.with_name(f"{path.stem}-{name}{path.suffix}") if several else path
        write_drawing(file, partial(str, drawing))


def write_view(path: Path | None, record: "Callable[[], ViewRecord]", **source: object) -> None:
    """Write a page of a view that names the command and its ``source``; without a path, nothing."""
    from regard.views.pages import page

    named = {"command": shlex.join(["regard", *sys.argv[1:]])}
    named |= {name: str(value) for name, value in source.items()}
    write_page(path, lambda: page(record().with_source(**named)))


def write_picture(path: Path | None, draw: Callable[[], bytes]) -> None:
    """Write bytes to a file, with its parent folders; without a path, do nothing."""
    if path is not None:
        write_bytes(path, draw())
        note(f"wrote {path}")


def in_terminal(text: Text) -> str:
    """A text with the codes of its styles, as standard output shows them."""
    with OUT.capture() as captured:
        OUT.print(text, end="")
    return captured.get()


def print_texts(lines: Iterable[Text | str]) -> None:
    """Print lines on standard output, with their styles in a terminal only."""
    terminal = sys.stdout.isatty()
    for line in lines:
        if terminal and not isinstance(line, str):
            OUT.print(line)
        else:
            print_line(str(line))


def print_tables(
    tables: Iterable[OutputTable], table_format: TableFormat = "text", *, after: int = 0
) -> None:
    """Print tables, ``after`` others, on standard output, with an empty line between two."""
    print_texts(lines_of(tables, table_format, terminal_width(), after=after))


def print_result(result: ExperimentResult, table_format: TableFormat = "text") -> None:
    """Print a result on standard output: as text its view, if it has one."""
    if result.view is not None and table_format == "text":
        OUT.print(result.view)
        return
    if table_format == "text":
        print_texts(result.drawing(OUT.width))
    print_texts(result.lines(table_format, terminal_width()))


def terminal_width() -> int | None:
    """Characters of a line of the terminal; None: standard output is a file or a pipe."""
    return OUT.width if sys.stdout.isatty() else None
