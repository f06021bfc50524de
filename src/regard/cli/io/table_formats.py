"""Tables of verbs, printed as text, Markdown, LaTeX, CSV or JSON lines."""

import csv
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from io import StringIO
from typing import TYPE_CHECKING, Any, Literal

from regard.cli.io.console import json_line, print_line, print_table
from regard.ground.errors import BadInput

if TYPE_CHECKING:
    from regard.metrics.translation import MetricScore

Cell = str | int | float | None
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


def choose_format(table_format: TableFormat, as_json: bool) -> TableFormat:
    """The format of ``--format``; ``--json`` is another name of ``--format json``."""
    if as_json and table_format not in ("text", "json"):
        raise BadInput(f"--json: cannot be used with --format {table_format}; choose one of them")
    return "json" if as_json else table_format


def print_tables(
    tables: Iterable[OutputTable], table_format: TableFormat = "text", *, after: int = 0
) -> None:
    """Print tables, ``after`` others, on standard output, with an empty line between two."""
    for number, table in enumerate(tables, after):
        if number and table_format != "json":
            print_line("")
        PRINTERS[table_format](table)


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


def _print_text(table: OutputTable) -> None:
    if table.title:
        print_line(table.title)
    left = [number for number, column in enumerate(table.columns) if column.left]
    print_table(table.names, table.texts, left)
    for line in table.notes:
        print_line(line)


def _print_lines(lines: Callable[[OutputTable], Iterator[str]], table: OutputTable) -> None:
    for line in lines(table):
        print_line(line)


def _markdown(table: OutputTable) -> Iterator[str]:
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


def _latex(table: OutputTable) -> Iterator[str]:
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


def _latex_row(cells: Sequence[str]) -> str:
    return " & ".join(" ".join(cell.split()).translate(_TO_LATEX) for cell in cells) + r" \\"


def _print_csv(table: OutputTable) -> None:
    heading = f"{table.title}\n" if table.title else ""
    sys.stdout.write(heading + csv_text(table))


def csv_text(table: OutputTable) -> str:
    """Table as CSV with a header; numbers are not rounded, and None is an empty cell."""
    file = StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(table.names)
    writer.writerows(table.rows)
    return file.getvalue()


def _print_json(table: OutputTable) -> None:
    for row in table.rows:
        sys.stdout.write(json_line(dict(zip(table.names, row, strict=True))))


PRINTERS: dict[str, Callable[[OutputTable], None]] = {
    "text": _print_text,
    "markdown": partial(_print_lines, _markdown),
    "latex": partial(_print_lines, _latex),
    "csv": _print_csv,
    "json": _print_json,
}
