"""Results and their tables, as lines of text, Markdown, LaTeX, CSV or JSON."""

import csv
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from itertools import zip_longest
from math import inf
from typing import TYPE_CHECKING, Any, Literal

from rich.cells import cell_len
from rich.text import Text

from regard.core.files import json_line
from regard.views.markup import clip

if TYPE_CHECKING:
    from regard.metrics.translation import MetricScore

GAP = 2  # spaces between columns
WIDTH = 80  # of drawings, where there is no terminal
LEAST = 3  # characters of a shortened heading

Cell = str | int | float | None
Texts = Sequence[str]
TableFormat = Literal["text", "markdown", "latex", "csv", "json"]

_IN_MARKDOWN = re.compile(r"([\\|<*`])")
_IN_LATEX = {
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
}
_TO_LATEX = str.maketrans(_IN_LATEX)


@dataclass(frozen=True)
class Column:
    """Column of a table; ``show`` gives the text of a value, ``missing`` stands for None.

    Values are written to CSV and JSON as they are.
    """

    name: str
    show: Callable[[Any], str] = str
    left: bool = False
    missing: str = ""

    def text(self, cell: Cell) -> str:
        """Text of a cell."""
        return self.missing if cell is None else self.show(cell)


@dataclass(frozen=True)
class OutputTable:
    """Typed table: columns, rows of values, a title above and notes below."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    title: str = ""
    notes: Sequence[str] = ()

    @property
    def names(self) -> list[str]:
        """Column names."""
        return [column.name for column in self.columns]

    @property
    def texts(self) -> list[list[str]]:
        """Rows as texts."""
        return [
            [column.text(cell) for column, cell in zip(self.columns, row, strict=True)]
            for row in self.rows
        ]


def text_column(name: str) -> Column:
    """Column of texts, aligned left."""
    return Column(name, left=True)


def number_column(name: str, form: str = "", missing: str = "", left: bool = False) -> Column:
    """Column of numbers with a format specification, such as ".2f"."""
    return Column(name, lambda value: format(value, form), left, missing)


def plain_table(
    columns: Sequence[str], rows: Sequence[Sequence[Cell]], notes: Sequence[str] = ()
) -> OutputTable:
    """Table whose first column is aligned left, all others right."""
    return OutputTable(
        [Column(name, left=not n) for n, name in enumerate(columns)], rows, notes=notes
    )


def score_table(
    scores: "Mapping[str, Sequence[MetricScore]]", of: str = "", title: str = ""
) -> OutputTable:
    """Scores by test set or system, which is named in a column ``of`` if that has a name."""
    every = [(name, score) for name, own in scores.items() for score in own]
    bounds = [score.interval for _, score in every]
    columns = [text_column("metric"), number_column("score", ".2f")]
    columns += [number_column("low", ".2f"), number_column("high", ".2f")] if any(bounds) else []
    rows: list[list[Cell]] = []
    for name, score in every:
        interval = score.interval or (None, None)
        around = interval if any(bounds) else ()
        first = [name] if of else []
        rows.append([*first, score.name, score.value, *around, score.signature])
    return OutputTable(
        [*([text_column(of)] if of else []), *columns, text_column("signature")], rows, title
    )


def table_lines(
    columns: Texts, rows: Sequence[Texts], left: Sequence[int], width: int | None
) -> Iterator[Text]:
    """Lines of a table, at most ``width`` characters wide if possible.

    Columns are aligned right, except those with an index in ``left``. If the width is too small,
    headings are split into lines, then shortened; those with digits are never shortened.
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


def _line(row: Texts, sizes: Sequence[int], left: Sequence[int]) -> str:
    padded = []
    for number, (cell, size) in enumerate(zip(row, sizes, strict=True)):
        space = " " * (size - cell_len(cell))
        padded.append(cell + space if number in left else space + cell)
    return (" " * GAP).join(padded).rstrip()


def _sizes(heads: Sequence[Texts], cells: Sequence[int]) -> list[int]:
    return [max([size, *map(cell_len, head)]) for head, size in zip(heads, cells, strict=True)]


def _text(table: OutputTable, width: int | None) -> Iterator[Text | str]:
    if table.title:
        yield table.title
    left = [number for number, column in enumerate(table.columns) if column.left]
    yield from table_lines(table.names, table.texts, left, width)
    yield from table.notes


def _markdown(table: OutputTable, width: int | None) -> Iterator[str]:
    if table.title:
        yield f"**{_markdown_cell(table.title)}**"
        yield ""
    rules = ["---" if column.left else "---:" for column in table.columns]
    for row in (table.names, rules, *table.texts):
        yield f"| {' | '.join(map(_markdown_cell, row))} |"
    for line in table.notes:
        yield ""
        yield _markdown_cell(line)


def _markdown_cell(text: str) -> str:
    return _IN_MARKDOWN.sub(r"\\\1", " ".join(text.split()))


def _latex(table: OutputTable, width: int | None) -> Iterator[str]:
    """Lines of a ``tabular`` with the rules of the package booktabs."""
    yield r"% needs \usepackage{booktabs}"
    if table.title:
        yield f"% {' '.join(table.title.split())}"
    alignment = "".join("l" if column.left else "r" for column in table.columns)
    yield rf"\begin{{tabular}}{{{alignment}}}"
    yield r"\toprule"
    yield _latex_row(table.names)
    yield r"\midrule"
    yield from map(_latex_row, table.texts)
    yield r"\bottomrule"
    yield r"\end{tabular}"
    for line in table.notes:
        yield f"% {' '.join(line.split())}"


def _latex_row(cells: Texts) -> str:
    return " & ".join(" ".join(cell.split()).translate(_TO_LATEX) for cell in cells) + r" \\"


def _csv(table: OutputTable, width: int | None) -> Iterator[str]:
    if table.title:
        yield table.title
    yield from csv_text(table).removesuffix("\n").split("\n")


def csv_text(table: OutputTable) -> str:
    """Table as CSV with a header; numbers are not rounded, and None is an empty cell."""
    file = StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(table.names)
    writer.writerows(table.rows)
    return file.getvalue()


def _json(table: OutputTable, width: int | None) -> Iterator[str]:
    for row in table.rows:
        yield json_line(dict(zip(table.names, row, strict=True))).removesuffix("\n")


LINES: dict[TableFormat, Callable[[OutputTable, int | None], Iterator[Text | str]]] = {
    "text": _text,
    "markdown": _markdown,
    "latex": _latex,
    "csv": _csv,
    "json": _json,
}
"""Functions that give the lines of a table of some width, by format."""


def lines_of(
    tables: Iterable[OutputTable],
    table_format: TableFormat = "text",
    width: int | None = None,
    *,
    after: int = 0,
) -> Iterator[Text | str]:
    """Lines of tables, ``after`` others, with an empty line between two."""
    for number, table in enumerate(tables, after):
        if number and table_format != "json":
            yield ""
        yield from LINES[table_format](table, width)


class ExperimentResult(ABC):
    """Result of a function of the library: tables, records, and lines in any format.

    ``str`` is the text for people, as the command line prints it.
    """

    @property
    def view(self) -> object | None:
        """What a terminal shows in place of the tables."""
        return None

    @abstractmethod
    def tables(self) -> Sequence[OutputTable]:
        """All figures, in the order in which they are printed."""

    def records(self) -> Iterable[Mapping[str, object]]:
        """Records for JSON: the rows of the tables."""
        for table in self.tables():
            for row in table.rows:
                yield dict(zip(table.names, row, strict=True))

    def text(self, width: int | None = None) -> Iterator[Text | str]:
        """Lines for people."""
        return lines_of(self.tables(), "text", width)

    def lines(
        self, table_format: TableFormat = "text", width: int | None = None
    ) -> Iterator[Text | str]:
        """Lines in a format."""
        if table_format == "text":
            return self.text(width)
        if table_format == "json":
            return (json_line(record).removesuffix("\n") for record in self.records())
        return lines_of(self.tables(), table_format, width)

    def drawing(self, width: int) -> Iterator[Text | str]:
        """Lines of charts and trees for people, above the tables, at most ``width`` wide."""
        return iter(())

    def __str__(self) -> str:
        return "\n".join(map(str, (*self.drawing(WIDTH), *self.text())))


@dataclass(frozen=True)
class Figures(ExperimentResult):
    """Tables of figures; ``json`` has their records, if these are not the rows."""

    figures: Sequence[OutputTable]
    json: Sequence[Mapping[str, object]] | None = None

    def tables(self) -> Sequence[OutputTable]:
        return self.figures

    def records(self) -> Iterable[Mapping[str, object]]:
        return super().records() if self.json is None else self.json
