"""Tables: columns of a file, by name or by number, keys of JSON lines, columns of Parquet."""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import NamedTuple, Self, cast
from warnings import warn

from regard.core.checks import is_whole
from regard.core.errors import BadInput, DataWarning, first_names, reason_of
from regard.core.files import JSON
from regard.data.readers.fields import (
    BadExample,
    Dropped,
    filled,
    json_object,
    json_value,
    parsed,
    present,
    typed,
    value_of,
)
from regard.data.readers.sources import Examples, NumberedLines, OneFile
from regard.data.readers.table_format import CSV, SEPARATOR, TSV, TableFormat
from regard.data.readers.text_files import Arrivals, coded_lines, decoded, first_bytes

Column = int | str
PARQUET = b"PAR1"  # the first bytes of a file


class OpenTable(NamedTuple):
    """A table whose form and columns are resolved, the names of its columns, and its lines.

    Without a header, there are no names; its columns are numbered.
    """

    source: "ColumnFile"
    names: tuple[str, ...]
    lines: NumberedLines


@dataclass(frozen=True)
class ColumnFile(OneFile):
    """Base class of files whose lines have all texts of an example."""

    columns: tuple[Column, ...]
    spaced: tuple[str, ...] = ()

    def opened(self, arrivals: Arrivals | None = None) -> OpenTable:
        """The table after its header; ``arrivals`` polls a stream."""
        return OpenTable(self, (), self.lines(arrivals))

    def examples(self) -> Examples:
        source, _, lines = self.opened()
        for number, raw in lines:
            where = self.where(number)
            yield [where] * len(source.columns), partial(source.decode, raw, where)

    def decode(self, raw: bytes, where: str) -> tuple[str, ...]:
        """The texts in a line of bytes."""
        return self.parse(filled(decoded(raw, where), where, "empty line"), where)

    def parse(self, line: str, where: str) -> tuple[str, ...]:
        """The texts in a line."""
        raise NotImplementedError

    def declared(self, form: TableFormat) -> Self:
        """The file in a form, as far as that is declared."""
        return self


@dataclass(frozen=True)
class Table(ColumnFile):
    """Tab-separated columns of one file, by number from 0 or by the name in its first line.

    ``form`` has delimiter, quoting, encoding and header. ``optional`` columns may be
    missing from the first line, and so from all examples. If the first line has as many cells as
    ``unnamed`` has names, it is an example, and these are the names.
    """

    optional: tuple[str, ...] = ()
    unnamed: tuple[str, ...] = ()
    most_cells: int | None = None  # of a line, if that is known
    form: TableFormat = TSV

    def declared(self, form: TableFormat) -> Self:
        return replace(self, form=self.form.declared(form))

    def lines(self, arrivals: Arrivals | None = None) -> NumberedLines:
        return enumerate(coded_lines(self.path, self.form.encoding or "utf-8", arrivals), start=1)

    def records(self, lines: NumberedLines) -> NumberedLines:
        """Lines of the table; with quoting, several lines of the file may form one."""
        if not self.form.quoting:
            yield from lines
            return
        delimiter = (self.form.delimiter or ",").encode()
        first, begun, quoted = 1, list[bytes](), False
        for number, raw in lines:
            first = first if begun else number
            begun.append(raw)
            quoted = ends_quoted(raw, delimiter, quoted)
            if not quoted:
                yield first, b"\n".join(begun)
                begun = []
        if begun:  # a bad record, as its quote is never closed
            yield first, b"\n".join(begun)

    def cells(self, line: str, where: str) -> list[str]:
        """All cells of a line."""
        delimiter = self.form.delimiter or ","
        if not self.form.quoting:
            return line.split(delimiter)
        try:
            (cells,) = csv.reader([line], delimiter=delimiter, strict=True)
        except (csv.Error, ValueError) as error:
            if ends_quoted(line.encode(), delimiter.encode(), False):
                remedy = "close it, or set quoting = false if quotes are part of the text"
                detail = f"a quote that is never closed; {remedy}"
                raise BadExample(where, "of a quote that is never closed", detail) from None
            remedy = "double the quotes in a quoted cell, or set quoting = false"
            raise BadExample(where, "not CSV", f"not CSV ({error}); {remedy}") from None
        return cells

    def check_width(self, cells: Sequence[str], most: int, where: str) -> None:
        """Refuse a line of more cells than the header has."""
        if len(cells) > most:
            remedy = f"quote cells that contain {self.form.delimiter!r}"
            detail = f"{len(cells)} cells, and the first line has {most}; {remedy}"
            raise BadExample(where, "of too many cells", detail)

    def opened(self, arrivals: Arrivals | None = None) -> OpenTable:
        names = [column for column in self.columns if isinstance(column, str)]
        if names and self.form.header is False:
            remedy = "name columns by number, from 0"
            raise BadInput(f"{self.name}: no column {names[0]!r} without a header; {remedy}")
        table = replace(self, form=self.form.found(self.path, names))
        lines = table.records(table.lines(arrivals))
        if not table.form.header:
            return OpenTable(table, (), lines)
        first = next(lines, None)
        if first is None:
            raise BadInput(f"{self.name}: empty, without a header")
        where = self.where(first[0])
        header = table.cells(decoded(first[1], where), where)
        if self.form.header is None and self.columns and not names:
            names_read = first_names(header)
            note = f"the first line is read as the header ({names_read}), not as an example"
            warn(f"{self.name}: {note}", DataWarning, stacklevel=2)
        if len(header) == len(self.unnamed):
            header, lines = [*self.unnamed], chain([first], lines)
        columns = []
        for column in self.columns:
            if isinstance(column, int):
                columns.append(column)
            elif header.count(column) > 1:
                raise BadInput(f"{where}: two columns are called {column!r}; rename one of them")
            elif column in header:
                columns.append(header.index(column))
            elif column not in self.optional:
                raise BadInput(f"{where}: no column {column!r} among {first_names(header)!r}")
        table = replace(table, columns=tuple(columns), most_cells=self.limit(header))
        return OpenTable(table, tuple(header), lines)

    def limit(self, header: Sequence[str]) -> int | None:
        """Maximum number of cells of a line below this header; None: any, as in benchmarks."""
        return None

    def parse(self, line: str, where: str) -> tuple[str, ...]:
        cells = self.cells(line, where)
        if self.most_cells is not None:
            self.check_width(cells, self.most_cells, where)
        for column in self.columns:
            if not 0 <= cast(int, column) < len(cells):
                detail = f"no column {column}, counted from 0: the line has {len(cells)}"
                raise BadExample(where, "without a column", detail)
        return tuple(cells[cast(int, column)] for column in self.columns)


@dataclass(frozen=True)
class Csv(Table):
    """A table with commas or another delimiter, quoted by RFC 4180."""

    form: TableFormat = CSV

    def lines(self, arrivals: Arrivals | None = None) -> NumberedLines:
        """Lines of the file, without the line ``sep=;`` that declares a delimiter."""
        lines = super().lines(arrivals)
        return (
            (number, raw)
            for number, raw in lines
            if number > 1 or not SEPARATOR.fullmatch(raw.decode(errors="replace"))
        )

    def limit(self, header: Sequence[str]) -> int | None:
        return len(header)

    def parse(self, line: str, where: str) -> tuple[str, ...]:
        cells = zip(super().parse(line, where), self.columns, strict=True)
        return tuple(present(cell, where, f"the cell of column {column}") for cell, column in cells)


@dataclass(frozen=True)
class JsonLines(ColumnFile):
    """One JSON object per line; column ``"translation.en"`` is the key "en" in "translation".

    Integers are read as text, since labels often are integers. An ``encoding`` that is not declared
    is found.
    """

    encoding: str | None = None

    def declared(self, form: TableFormat) -> Self:
        return replace(self, encoding=form.encoding)

    def lines(self, arrivals: Arrivals | None = None) -> NumberedLines:
        form = TableFormat(",", quoting=False, encoding=self.encoding, header=False)
        encoding = form.found(self.path).encoding or "utf-8"
        return enumerate(coded_lines(self.path, encoding, arrivals), start=1)

    def parse(self, line: str, where: str) -> tuple[str, ...]:
        record = json_value(line, where)
        return tuple(_json_text(record, str(key), where) for key in self.columns)


class Parquet(ColumnFile):
    """Columns of a Parquet file, by number from 0 or by name; rows are counted from 1."""

    def examples(self) -> Examples:
        for number, record in enumerate(parquet_records(self.path), start=1):
            where = self.where(number)
            yield [where] * len(self.columns), partial(self.texts_in, record, where)

    def texts_in(self, record: dict[str, JSON], where: str) -> tuple[str, ...]:
        """The texts of a row."""
        names = [*record]
        for column in self.columns:
            if isinstance(column, int) and not 0 <= column < len(names):
                detail = f"no column {column}, counted from 0: the row has {len(names)}"
                raise BadExample(where, "without a column", detail)
        keys = (names[key] if isinstance(key, int) else key for key in self.columns)
        return tuple(_json_text(record, key, where) for key in keys)


def ends_quoted(line: bytes, delimiter: bytes, quoted: bool) -> bool:
    """Whether a line ends inside a quoted cell; ``quoted``: it begins inside one.

    Only a quote at the beginning of a cell opens it; in a quoted cell, two stand for one.
    """
    may_open = True  # at the beginning of the line, and after a quote that closes a cell
    for text in line.split(b'"')[:-1]:
        if quoted:
            quoted, may_open = False, True
        else:
            quoted, may_open = text.endswith(delimiter) or (may_open and not text), False
    return quoted


def parquet_records(path: str) -> Iterator[dict[str, JSON]]:
    """The rows of a Parquet file as records."""
    if first_bytes(path, len(PARQUET)) != PARQUET:
        raise BadInput(f"{path}: not a Parquet file")
    parquet = import_pyarrow("pyarrow.parquet", path)
    try:
        for batch in parquet.ParquetFile(path).iter_batches():
            yield from batch.to_pylist()
    except (OSError, ValueError) as error:  # pyarrow's own errors are ValueErrors
        raise BadInput(f"{path}: cannot be read as Parquet ({reason_of(error)})") from None


def import_pyarrow(module: str, path: str) -> ModuleType:
    """A module of pyarrow, which is optional."""
    try:
        return import_module(module)
    except ImportError:
        raise BadInput(f"{path}: Parquet needs pyarrow: pip install regard[parquet]") from None


def read_cells(table: Table, dropped: Dropped = None) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Read (where, cells) of every line of a table; cells may be empty."""
    lines = ((places[0], parse) for places, parse in table.examples())
    return parsed(lines, lambda where, parse: (where, parse()), dropped)


def read_objects(path: Path, dropped: Dropped) -> Iterator[tuple[str, dict[str, JSON]]]:
    """Read (where, object) of every line of JSON."""
    source = JsonLines(str(path), ())
    lines = ((source.where(number), raw) for number, raw in source.lines())

    def parse(where: str, raw: bytes) -> tuple[str, dict[str, JSON]]:
        return where, json_object(filled(decoded(raw, where), where), where)

    return parsed(lines, parse, dropped)


def _json_text(record: JSON, key: str, where: str) -> str:
    value, name = value_of(record, key, where), f"the value of {key!r}"
    if value is None or value != value:
        raise BadExample(where, "missing", f"{name} is missing")
    return present(str(value) if is_whole(value) else typed(value, str, name, where), where, name)
