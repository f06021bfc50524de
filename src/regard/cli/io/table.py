"""Tables for the terminal, whose cells are never cut."""

import sys
from collections.abc import Iterator, Sequence
from itertools import zip_longest

from rich.cells import cell_len
from rich.text import Text

from regard.cli.io.console import OUT, print_line
from regard.inside.views.escape import clip

GAP = 2  # spaces between columns
LEAST = 3  # characters of a shortened heading

Row = Sequence[str]


def print_table(columns: Row, rows: Sequence[Row], left: Sequence[int] = (0,)) -> None:
    """As wide as its cells; in a narrower terminal the headings are stacked, then shortened.

    Headings with digits are not shortened. Columns are aligned right, except those in ``left``. In
    a pipe it is plain text.
    """
    terminal = sys.stdout.isatty()
    for line in table_lines(columns, rows, left, OUT.width if terminal else None):
        if terminal:
            OUT.print(line)
        else:
            print_line(line.plain)


def table_lines(
    columns: Row, rows: Sequence[Row], left: Sequence[int], width: int | None
) -> Iterator[Text]:
    """The lines of a table that should be at most ``width`` characters wide."""
    cells = [max((cell_len(row[n]) for row in rows), default=0) for n in range(len(columns))]
    heads = [[column] for column in columns]
    if width is not None and _total(heads, cells) > width:  # words below each other
        heads = [column.split() for column in columns]
    if width is not None and _total(heads, cells) > width:
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


def _total(heads: Sequence[Row], cells: Sequence[int]) -> int:
    return sum(_sizes(heads, cells)) + GAP * (len(cells) - 1)
