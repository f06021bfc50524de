"""Printing: results and tables go to standard output, messages to standard error."""

import json
import re
import shlex
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import zip_longest
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from regard.ground.errors import BadInput, DataWarning
from regard.ground.files import write_bytes
from regard.inside.views.markup import clip

if TYPE_CHECKING:
    from regard.inside.views.view_record import ViewRecord

GAP = 2  # spaces between columns
LEAST = 3  # characters of a shortened heading

Row = Sequence[str]


class Output(Console):
    """Console that raises BrokenPipeError when the reader of its output has closed the pipe."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


OUT = Output(highlight=False, soft_wrap=True)
ERR = Console(stderr=True, highlight=False, soft_wrap=True)


def complain(message: str) -> None:
    """Print an error in one line on standard error."""
    note("regard: " + " ".join(message.split()))


def note(message: str) -> None:
    """Print a message on standard error; if writing fails, it is lost."""
    with suppress(OSError):
        ERR.print(message, markup=False)


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


def json_line(record: Mapping[str, object]) -> str:
    """A record as one line of JSON; bytes that are not UTF-8 (in file names) are escaped."""
    text = json.dumps(record, ensure_ascii=False) + "\n"
    return text.encode(errors="backslashreplace").decode()


def print_line(text: str) -> None:
    """Print a line of text on standard output, without markup."""
    sys.stdout.write(text + "\n")


def check_suffixes(**files: Path | None) -> None:
    """Refuse a file name whose suffix belongs to another option: ``--svg page.html``."""
    for format, path in files.items():
        suffix = "" if path is None else path.suffix.lower().removeprefix(".")
        if suffix in files.keys() - {format}:
            raise BadInput(f"--{format} {path}: the name ends in .{suffix}; use --{suffix}")


def write_page(path: Path | None, draw: Callable[[], str]) -> None:
    """Write a text (HTML, SVG, lines) to a file; without a path, do nothing."""
    write_picture(path, lambda: draw().encode())


def write_view(path: Path | None, record: "Callable[[], ViewRecord]", **source: object) -> None:
    """Write a page of a view that names the command and its ``source``; without a path, nothing."""
    from regard.inside.views.pages import page

    named = {"command": shlex.join(["regard", *sys.argv[1:]])}
    named |= {name: str(value) for name, value in source.items()}
    write_page(path, lambda: page(record().with_source(**named)))


def write_picture(path: Path | None, draw: Callable[[], bytes]) -> None:
    """Write bytes to a file, with its parent folders; without a path, do nothing."""
    if path is not None:
        write_bytes(path, draw())
        note(f"wrote {path}")


def slug(name: str) -> str:
    """Folder name made of a name: lower case, with hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "rung"


def cost_line(cost: Mapping[str, float]) -> str:
    """Parameters, FLOPs, tokens and device time of a training run, in one line."""
    return (
        f"cost: {cost['parameters']:,.0f} parameters, {cost['training_flops']:.3g} training FLOPs, "
        f"{cost['tokens']:,.0f} tokens, {cost['device_seconds']:,.0f} device-seconds"
    )


def print_table(columns: Row, rows: Sequence[Row], left: Sequence[int] = (0,)) -> None:
    """Print a table; columns are aligned right, except those with an index in ``left``.

    In a terminal that is too narrow, headings are split into lines, then shortened.
    """
    width = OUT.width if sys.stdout.isatty() else None
    print_texts(table_lines(columns, rows, left, width))


def in_terminal(text: Text) -> str:
    """A text with the codes of its styles, as standard output shows them."""
    with OUT.capture() as captured:
        OUT.print(text, end="")
    return captured.get()


def print_texts(lines: Iterable[Text]) -> None:
    """Print lines on standard output, with their styles in a terminal only."""
    terminal = sys.stdout.isatty()
    for line in lines:
        if terminal:
            OUT.print(line)
        else:
            print_line(line.plain)


def table_lines(
    columns: Row, rows: Sequence[Row], left: Sequence[int], width: int | None
) -> Iterator[Text]:
    """Lines of a table, at most ``width`` characters wide if possible.

    Headings with digits are never shortened.
    """
    cells = [max((cell_len(row[n]) for row in rows), default=0) for n in range(len(columns))]
    heads = [[column] for column in columns]
    sizes = _sizes(heads, cells)
    most = inf if width is None else width - GAP * (len(columns) - 1)
    if sum(sizes) > most:  # words below each other
        heads = [column.split() for column in columns]
        sizes = _sizes(heads, cells)
    if sum(sizes) > most:
        heads = [
            [word if any(map(str.isdigit, word)) else clip(word, max(size, LEAST)) for word in head]
            for head, size in zip(heads, cells, strict=True)
        ]
        sizes = _sizes(heads, cells)
    stacked = zip_longest(*(reversed(head) for head in heads), fillvalue="")
    for words in reversed(list(stacked)):
        yield Text(_line(words, sizes, left), "bold")
    for row in rows:
        yield Text(_line(row, sizes, left))


def _line(row: Row, sizes: Sequence[int], left: Sequence[int]) -> str:
    padded = []
    for number, (cell, size) in enumerate(zip(row, sizes, strict=True)):
        space = " " * (size - cell_len(cell))
        padded.append(cell + space if number in left else space + cell)
    return (" " * GAP).join(padded).rstrip()


def _sizes(heads: Sequence[Row], cells: Sequence[int]) -> list[int]:
    return [max([size, *map(cell_len, head)]) for head, size in zip(heads, cells, strict=True)]
