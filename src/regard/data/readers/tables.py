"""Tables: columns of a file, by name or by number, or keys of JSON lines."""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import cast

from regard.data.readers.fields import (
    BadExample,
    Dropped,
    filled,
    json_object,
    json_value,
    parsed,
    typed,
    value_of,
)
from regard.data.readers.sources import Examples, Lines, NumberedLines, OneFile, read_texts
from regard.data.readers.text_files import decoded
from regard.ground.checks import is_whole
from regard.ground.errors import BadInput
from regard.ground.files import JSON

Column = int | str


@dataclass(frozen=True)
class ColumnFile(OneFile):
    """Base class of files whose lines have all texts of an example."""

    columns: tuple[Column, ...]
    spaced: tuple[str, ...] = ()

    def without_header(self, lines: NumberedLines) -> "tuple[ColumnFile, NumberedLines]":
        """The source with its columns by number, and its lines after the header."""
        return self, lines

    def examples(self) -> Examples:
        source, lines = self.without_header(self.lines())
        for number, raw in lines:
            where = self.place(number)
            yield [where] * len(source.columns), partial(source.decode, raw, where)

    def decode(self, raw: bytes, where: str) -> tuple[str, ...]:
        """The texts in a line of bytes."""
        return self.parse(filled(decoded(raw, where), where, "empty line"), where)

    def parse(self, line: str, where: str) -> tuple[str, ...]:
        """The texts in a line."""
        raise NotImplementedError


@dataclass(frozen=True)
class Table(ColumnFile):
    """Tab-separated columns of one file, by number from 0 or by the name in its first line.

    There is no quoting. ``optional`` columns may be missing from the first line, and so from all
    examples. If the first line has as many cells as ``unnamed`` has names, it is an example, and
    these are the names.
    """

    optional: tuple[str, ...] = ()
    unnamed: tuple[str, ...] = ()
    most_cells: int | None = None  # of a line, if that is known

    def records(self, lines: NumberedLines) -> NumberedLines:
        """Lines of the table; in CSV, several lines of the file may form one."""
        return lines

    def cells(self, line: str, where: str) -> list[str]:
        """All columns of a line."""
        return line.split("\t")

    def without_header(self, lines: NumberedLines) -> "tuple[Table, NumberedLines]":
        lines = self.records(lines)
        if all(isinstance(column, int) for column in self.columns):
            return self, lines
        first = next(lines, None)
        if first is None:
            raise BadInput(f"{self.name}: empty, without a header")
        where = self.place(1)
        header = self.cells(decoded(first[1], where), where)
        if len(header) == len(self.unnamed):
            header, lines = [*self.unnamed], chain([first], lines)
        columns = []
        for column in self.columns:
            if isinstance(column, int):
                columns.append(column)
            elif column in header:
                columns.append(header.index(column))
            elif column not in self.optional:
                raise BadInput(f"{where}: no column {column!r} among {', '.join(header)!r}")
        return replace(self, columns=tuple(columns), most_cells=self.limit(header)), lines

    def limit(self, header: Sequence[str]) -> int | None:
        """Maximum number of cells of a line below this header; None: any, as in benchmarks."""
        return None

    def parse(self, line: str, where: str) -> tuple[str, ...]:
        cells = self.cells(line, where)
        if self.most_cells is not None and len(cells) > self.most_cells:
            detail = f"{len(cells)} cells, and the first line has {self.most_cells}"
            raise BadExample(where, "of too many cells", detail)
        for column in self.columns:
            if not 0 <= cast(int, column) < len(cells):
                detail = f"no column {column}, counted from 0: the line has {len(cells)}"
                raise BadExample(where, "without a column", detail)
        return tuple(cells[cast(int, column)] for column in self.columns)


class Csv(Table):
    """A table with commas, quoted by RFC 4180."""

    def records(self, lines: NumberedLines) -> NumberedLines:
        first, begun = 1, b""
        for number, raw in lines:
            first, begun = (first, begun + b"\n" + raw) if begun else (number, raw)
            if begun.count(b'"') % 2 == 0:
                yield first, begun
                begun = b""
        if begun:
            raise BadInput(f"{self.place(first)}: a quote that is never closed")

    def limit(self, header: Sequence[str]) -> int | None:
        return len(header)

    def cells(self, line: str, where: str) -> list[str]:
        try:
            (cells,) = csv.reader([line], strict=True)
        except (csv.Error, ValueError) as error:
            raise BadExample(where, "not CSV", f"not CSV ({error})") from None
        return cells


class JsonLines(ColumnFile):
    """One JSON object per line; column ``"translation.en"`` is the key "en" in "translation".

    Integers are read as text, since labels often are integers.
    """

    def parse(self, line: str, where: str) -> tuple[str, ...]:
        record = json_value(line, where)
        return tuple(_json_text(record, str(key), where) for key in self.columns)


def read_cells(table: Table, dropped: Dropped = None) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Read (where, cells) of every line of a table; cells may be empty."""
    lines = ((places[0], parse) for places, parse in table.examples())
    return parsed(lines, lambda where, parse: (where, parse()), dropped)


def read_objects(path: Path, dropped: Dropped) -> Iterator[tuple[str, dict[str, JSON]]]:
    """Read (where, object) of every line of JSON."""
    lines = read_texts(Lines((str(path),)), dropped=dropped)
    return parsed(lines, lambda where, line: (where, json_object(line, where)), dropped)


def _json_text(record: JSON, key: str, where: str) -> str:
    value = value_of(record, key, where)
    return str(value) if is_whole(value) else typed(value, str, f"the value of {key!r}", where)
