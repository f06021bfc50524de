"""Tables as inputs: columns are read, and all rows written again with result columns.

Input and output have the same format: CSV, TSV, JSON lines or Parquet; the output is in UTF-8.
"""

import io
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, cast

from regard.core.checks import is_whole
from regard.core.errors import ArgumentName, BadArgument, BadInput, Parts, first_names
from regard.core.files import JSON, check_regular, json_line
from regard.data.readers.fields import BadExample, DropCounts, json_object, parsed, typed, value_of
from regard.data.readers.sources import NumberedLines
from regard.data.readers.table_files import Csv, JsonLines, Table, import_pyarrow, parquet_records
from regard.data.readers.table_format import TableFormat
from regard.data.readers.text_files import STDIN, Arrivals, decoded, name_of, read_lines, suffix_of
from regard.data.table_columns import PAIRS, TEXTS, TRANSLATIONS, InputColumns, record_columns
from regard.experiments.bulk.line_source import (
    UNDECLARED,
    InputSettings,
    Line,
    LineSource,
    ResultForm,
    RowResult,
    parser_of,
    remarks_of,
    token_limit,
    with_limit,
)
from regard.experiments.notes import Listener, Note, ignore

if TYPE_CHECKING:
    from regard.tasks.components import AnyComponent

Record = dict[str, JSON]
Cells = Mapping[str, object]
ERROR = "error"  # the column, and the key, of the errors of bad rows
ONE_LINE = str.maketrans("\t\n\r", "   ")
# Names of columns that are texts, and of two columns that are a pair, in small letters.
SINGLE = (*TEXTS, *(source for source, _ in TRANSLATIONS))
DOUBLE = (*PAIRS, *TRANSLATIONS, ("question", "context"))


class TableRows(ABC):
    """Rows of a table: each a text, from which a record is made, and which results are added to.

    With ``named``, the file has a header; otherwise that is found, as all that ``form`` does not
    declare. ``streams``: rows are printed as results come; otherwise all at the end, by ``finish``.
    """

    streams: ClassVar[bool] = True
    delimited: ClassVar[bool] = False
    header: tuple[str, ...] = ()

    def __init__(self, path: str, *, named: bool = False, form: TableFormat = UNDECLARED):
        self.path, self.form = path, form
        if form.delimiter is not None and not self.delimited:
            fault = f"{path} has no delimiter between columns; leave it out"
            raise BadArgument(fault, key="delimiter")

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """The columns by name, or by number if they have no names."""

    @property
    def is_column_of_texts(self) -> bool:
        """Whether the table has a single column, which may be a text whatever its name."""
        return len(self.names) == 1

    @abstractmethod
    def lines(self, arrivals: Arrivals) -> NumberedLines:
        """The texts of all rows, with their places in the file."""

    @abstractmethod
    def record(self, text: str, where: str) -> Record:
        """The values of a row by column."""

    def head(self, columns: Sequence[str]) -> str:
        """The header, with result columns."""
        return ""

    @abstractmethod
    def row(self, text: str, where: str, results: Cells) -> str:
        """A row with results."""

    @property
    def schema(self) -> str:
        """A text that is equal for tables whose rows can be in one file."""
        return self.head(())

    def finish(self, results: Sequence[RowResult]) -> bytes:
        """What follows all rows: here, nothing."""
        return b""


class DelimitedRows(TableRows):
    """Rows of a CSV or TSV file; a row keeps its text, and cells with results follow it."""

    kind: ClassVar[type[Table]] = Csv
    delimited = True

    def __init__(self, path: str, *, named: bool = False, form: TableFormat = UNDECLARED):
        super().__init__(path, form=form)
        source = self.kind(path, ()).declared(form)
        source = replace(source, form=replace(source.form, header=named or None))
        opened = source.opened()
        self.source, self.table, self.header = source, cast(Table, opened.source), opened.names

    @cached_property
    def names(self) -> tuple[str, ...]:
        for number, raw in () if self.header else self.lines(Arrivals()):
            where = self.table.where(number)
            return tuple(map(str, range(len(self.table.cells(decoded(raw, where), where)))))
        return self.header

    def lines(self, arrivals: Arrivals) -> NumberedLines:
        return self.source.opened(arrivals).lines

    def record(self, text: str, where: str) -> Record:
        cells = self.table.cells(text, where)
        if self.header:
            self.table.check_width(cells, len(self.header), where)
        names = self.header or map(str, range(len(cells)))
        return {**dict.fromkeys(self.header, ""), **dict(zip(names, cells, strict=False))}

    def head(self, columns: Sequence[str]) -> str:
        names = map(self._cell, (*self.header, *columns))
        return self._joined([*names]) if self.header else ""

    def row(self, text: str, where: str, results: Cells) -> str:
        """A row with results in further cells; a malformed row becomes a single cell."""
        if not text:
            return "\n"
        try:
            count = len(self.table.cells(text, where))
        except BadExample:
            text, count = self._cell(text), 1
        missing = [""] * (len(self.header) - count)
        return self._joined([text, *missing, *map(self._cell, results.values())])

    def _joined(self, cells: Sequence[str]) -> str:
        return (self.table.form.delimiter or ",").join(cells) + "\n"

    def _cell(self, value: object) -> str:
        """A value as a cell: lists and objects as JSON, nothing for None."""
        if value is None or isinstance(value, str):
            cell = value or ""
        elif isinstance(value, float):
            cell = f"{value:.8g}"
        else:
            cell = json.dumps(value, ensure_ascii=False)
        if not self.table.form.quoting:
            return cell.translate(ONE_LINE)
        if {'"', "\n", "\r", self.table.form.delimiter} & {*cell} or cell != cell.strip():
            return '"' + cell.replace('"', '""') + '"'
        return cell


class TsvRows(DelimitedRows):
    """Rows of a tab-separated file."""

    kind = Table


class JsonRows(TableRows):
    """Rows of JSON lines; results are added to each object."""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._first)

    @property
    def is_column_of_texts(self) -> bool:
        return super().is_column_of_texts and isinstance(self._first[self.names[0]], str | list)

    @cached_property
    def _first(self) -> Record:
        for number, raw in self.lines(Arrivals()):
            if raw.strip():
                where = f"{name_of(self.path)}:{number}"
                return self.record(decoded(raw, where), where)
        return {}

    def lines(self, arrivals: Arrivals) -> NumberedLines:
        return JsonLines(self.path, ()).declared(self.form).lines(arrivals)

    def record(self, text: str, where: str) -> Record:
        return json_object(text, where)

    def row(self, text: str, where: str, results: Cells) -> str:
        """An object with results; a malformed line is kept under "line"."""
        known = {key: value for key, value in results.items() if (key, value) != (ERROR, None)}
        try:
            return json_line({**self.record(text, where), **known}) if text.strip() else "\n"
        except BadExample:
            return json_line({"line": text, **known})


class ParquetRows(JsonRows):
    """Rows of a Parquet file, read as JSON; columns with results are appended at the end."""

    streams = False

    def lines(self, arrivals: Arrivals) -> NumberedLines:
        rows = (json.dumps(record, default=str) for record in parquet_records(self.path))
        return ((number, row.encode()) for number, row in enumerate(rows, start=1))

    def row(self, text: str, where: str, results: Cells) -> str:
        return ""

    @property
    def schema(self) -> str:
        return str(import_pyarrow("pyarrow.parquet", self.path).read_schema(self.path))

    def finish(self, results: Sequence[RowResult]) -> bytes:
        """The Parquet file: rows of the input by index, with result columns."""
        arrow = import_pyarrow("pyarrow", self.path)
        parquet = import_pyarrow("pyarrow.parquet", self.path)
        by_file = [(file, [*rows]) for file, rows in groupby(results, lambda result: result.file)]
        table, *more = (
            parquet.read_table(file).take([result.row for result in rows])
            for file, rows in by_file or [(self.path, [])]
        )
        table = arrow.concat_tables([table, *more]) if more else table
        for name in results[0].cells if results else ():
            column = arrow.array([result.cells[name] for result in results])
            table = table.append_column(name, column)
        content = io.BytesIO()
        parquet.write_table(table, content)
        return content.getvalue()


FORMATS: dict[str, type[TableRows]] = {
    **{".csv": DelimitedRows, ".tsv": TsvRows},
    **dict.fromkeys((".jsonl", ".ndjson", ".json"), JsonRows),
    **{".parquet": ParquetRows, ".pq": ParquetRows},
}
"""Formats of tables by the suffix of a file."""


@dataclass(frozen=True, kw_only=True)
class TableSource(LineSource):
    """The rows of a table, which have an input in some of their columns."""

    rows: TableRows

    @property
    def has_columns(self) -> bool:
        return True

    @property
    def streams(self) -> bool:
        return self.rows.streams

    @property
    def schema(self) -> str:
        return self.rows.schema

    def numbered(self, arrivals: Arrivals) -> NumberedLines:
        return self.rows.lines(arrivals)

    def head(self, component: "AnyComponent", form: ResultForm) -> str:
        columns = (*component.columns, *((ERROR,) if self.skip_bad else ()))
        return "" if form.as_json else self.rows.head([*map(self._column, columns)])

    def printed(self, line: Line, component: "AnyComponent", form: ResultForm) -> Iterator[str]:
        where, result = self.where(line.number), line.value
        if form.as_json:
            end = {**remarks_of(line, component), **form.envelope}
            records = [component.empty_record] if result is None else component.records(result)
            row = self._row(line.text, where)
            yield from (json_line({**row, **self._results(record), **end}) for record in records)
            return
        empty = dict.fromkeys(component.columns)
        for cells in [empty] if result is None else component.cells(result):
            error = {ERROR: line.error} if self.skip_bad else {}
            results = self._results({**cells, **error})
            if not self.streams:
                self.results.append(RowResult(self.file, line.number - 1, results))
            yield self.rows.row(line.text, where, results)

    def finish(self, form: ResultForm, more: Sequence[LineSource] = ()) -> bytes:
        results = [result for source in (self, *more) for result in source.results]
        return b"" if form.as_json else self.rows.finish(results)

    def _row(self, text: str, where: str) -> Record:
        """The values of a row; a malformed row is kept under "line"."""
        try:
            return self.rows.record(text, where) if text.strip() else {}
        except BadExample:
            return {"line": text}

    def _results(self, cells: Cells) -> dict[str, object]:
        return {self._column(name): value for name, value in cells.items()}

    def _column(self, name: str) -> str:
        """The name of a result column; ``predicted_label`` if the table has a ``label``."""
        names, number = self.rows.names, 2
        if name not in names:
            return name
        free = name = f"predicted_{name}"
        while free in names:
            free, number = f"{name}_{number}", number + 1
        return free


def open_rows(
    file: str, columns: Sequence[str] | None = None, form: TableFormat = UNDECLARED
) -> TableRows:
    """The rows of a table by the suffix of its file, else CSV; named columns need a header."""
    named = not all(map(str.isdigit, columns or ()))
    return FORMATS.get(suffix_of(file), DelimitedRows)(file, named=named, form=form)


def table_source(
    component: "AnyComponent", file: str, settings: InputSettings
) -> TableSource | None:
    """The rows of a table, by the suffix of the file; None if it has plain lines.

    With ``columns`` or a delimiter, a file with another suffix is CSV. Without, columns are those
    that the model was ``trained`` on, or found by their names; pipes, and TSV files without a
    header, have plain lines; a translator reads the first of two columns of texts.
    """
    columns, form = settings.columns, settings.form
    suffix, declared = suffix_of(file), {"columns": columns, "delimiter": form.delimiter}
    declarations = [name for name, value in declared.items() if value]
    if not declarations and (suffix not in FORMATS or not Path(file).is_file()):
        return None
    if file == STDIN:
        fault = "name a file; standard input has no suffix that tells its format"
        raise BadArgument(fault, key=declarations[0])
    check_regular(Path(file))
    rows = open_rows(file, columns, form)
    keys_of, on_event = component.record_keys, settings.on_event
    known = [] if columns else _trained_columns(rows, keys_of, settings.trained, on_event)
    is_pair = component.reads_source and len(rows.names) > 1
    if not declarations and suffix == ".tsv" and not (rows.header or is_pair or known):
        return None
    if not rows.names:
        raise BadInput(f"{file}: the table has no rows")
    chosen = [_column(column, rows) for column in columns or ()] or known
    if not chosen:
        chosen = _text_columns(rows, keys_of, on_event, reads_source=component.reads_source)
    for column in chosen:
        if rows.names.count(column) > 1:
            raise BadInput(f"{file}: two columns are called {column!r}; rename one of them")
    fitting = [keys for keys in keys_of if len(keys) == len(chosen)]
    keys = next((keys for keys in fitting if [*keys] == chosen), next(iter(fitting), None))
    if keys is None:
        counts = " or ".join(str(len(keys)) for keys in keys_of)
        fault = f"this model reads {counts} of them, not {len(chosen)}"
        which = ", or ".join(" and ".join(keys) for keys in keys_of)
        raise BadArgument(f"{fault}: {which}", key="columns")
    by_key = dict(zip(keys, chosen, strict=True))
    parse = record_parser(component, rows, by_key, settings.max_length)
    return TableSource(
        file,
        parse,
        skip_bad=settings.skip_bad,
        argument=settings.argument,
        rows=rows,
        columns=tuple(chosen),
    )


def read_texts(
    file: str, columns: Sequence[str] | None, on_event: Listener = ignore
) -> Iterator[tuple[int, str]]:
    """Texts of a column of a table, or of the lines of another file, with their lines from 1."""
    suffix = suffix_of(file)
    rows = None
    if columns or (suffix in FORMATS and Path(file).is_file()):
        rows = open_rows(file, columns)
    if rows is None or (not columns and suffix == ".tsv" and not rows.header):
        yield from enumerate(read_lines(file), start=1)
        return
    chosen = [_column(name, rows) for name in columns or ()]
    chosen = chosen or _text_columns(rows, (("text",),), on_event)
    if len(chosen) > 1:
        raise BadArgument(f"one column has the texts, not {len(chosen)}", key="columns")
    for number, raw in rows.lines(Arrivals()):
        where = f"{name_of(file)}:{number}"
        if (text := decoded(raw, where)).strip():
            yield number, str(_value(rows.record(text, where), chosen[0], where))


def _column(column: str, rows: TableRows) -> str:
    """The name of a column that is given by name or by number, from 0."""
    names = rows.names
    if column in names or ("." in column and column.split(".")[0] in names):
        return column
    if column.isdigit() and int(column) < len(names):
        return names[int(column)]
    fault = f" {column}: {rows.path} has no such column, but {first_names(names)}"
    raise BadInput((ArgumentName("columns"), fault))


def _trained_columns(
    rows: TableRows,
    alternatives: Sequence[Sequence[str]],
    trained: InputColumns,
    on_event: Listener,
) -> list[str]:
    """The columns that a model was trained on, if the table has them all; they are reported.

    Numbers stand for columns of a table with a delimiter, and at least two columns.
    """
    columns = list[str]()
    for column in trained.inputs:
        numbered = isinstance(column, int) and rows.delimited and len(rows.names) > 1
        if numbered and 0 <= int(column) < len(rows.names):
            columns.append(rows.names[int(column)])
        elif column in rows.names or str(column).split(".")[0] in rows.names:
            columns.append(str(column))
    if len(columns) < len(trained.inputs) or len(columns) not in map(len, alternatives):
        return []
    if columns:
        on_event(Note(f"{rows.path}: reads {' and '.join(columns)}, as in training"))
    return columns


def _text_columns(
    rows: TableRows,
    alternatives: Sequence[Sequence[str]],
    on_event: Listener,
    *,
    reads_source: bool = False,
) -> list[str]:
    """The columns of texts by their names; if these do not tell, an error lists them.

    ``alternatives`` are the keys of records, one for each text of an input. A model that
    ``reads_source`` takes the first of two columns of texts.
    """
    names = {name.casefold(): name for name in rows.names}
    exact = [keys for keys in alternatives if {*keys} <= {*names}]
    pairs = [pair for pair in DOUBLE if {*pair} <= {*names}]
    texts = [(name,) for name in names if name in SINGLE or rows.is_column_of_texts]
    by_length: dict[int, Sequence[Sequence[str]]] = {
        2: pairs[:1],
        1: texts if len(texts) == 1 else [],
    }
    lengths = sorted({len(keys) for keys in alternatives}, reverse=True)
    likely: list[Sequence[str]] = [*exact[-1:]]
    likely += [keys for length in lengths for keys in by_length[length]]
    if not likely and reads_source:
        likely = [[name.casefold()] for name in _source_columns(rows)]
    if not likely:
        listed, keys = first_names(rows.names), alternatives[0]
        which, more = "column is the text", ", one"
        if len(keys) > 1:
            which, more = f"columns are {' and '.join(keys)}", " for each"
        choose: Parts = ("? Add ", ArgumentName("columns"), f"{more} of: {listed}")
        raise BadInput((f"{rows.path}: which {which}", *choose))
    columns = [names[key] for key in likely[0]]
    on_event(Note(f"{rows.path}: reads {' and '.join(columns)}"))
    return columns


def _source_columns(rows: TableRows) -> list[str]:
    """The source column, if the table has two columns of texts, such as en and de."""
    lines = ((f"{rows.path}:{number}", raw) for number, raw in rows.lines(Arrivals()) if raw)
    records = parsed(
        lines, lambda where, raw: rows.record(decoded(raw, where), where), DropCounts()
    )
    return [*map(str, record_columns(Path(rows.path), records, "").translation()[:1])]


def record_parser(
    component: "AnyComponent", rows: TableRows, columns: Mapping[str, str], max_length: int | None
) -> Callable[[str, str], object]:
    """Parser of rows for a component; ``columns`` are columns by the keys of its records."""
    limited = with_limit(
        component.parse_record, component.token_count, token_limit(component, max_length)
    )

    def parse(text: str, where: str) -> object:
        if not text.strip():
            return None
        row = rows.record(text, where)
        record = {key: _value(row, column, where) for key, column in columns.items()}
        if not component.reads_empty and any(_is_blank(value) for value in record.values()):
            return None
        more = {key: row[key] for key in component.more_keys if row.get(key) is not None}
        return limited({**more, **record}, where)

    return parse


def _value(row: Record, column: str, where: str) -> object:
    """The value of a column: a list, or a text without tabs, which would separate two texts."""
    value = value_of(row, column, where)
    if isinstance(value, list):
        return value
    text = "" if value is None else str(value) if is_whole(value) else value
    return typed(text, str, f"the value of {column!r}", where).replace("\t", " ")


def _is_blank(value: object) -> bool:
    return isinstance(value, str) and not value.strip()


def table_or_lines(component: "AnyComponent", file: str, settings: InputSettings) -> LineSource:
    """The inputs of a component that reads texts: annotated examples, rows of a table, or lines."""
    refuse_folder_or_image(file)
    parse = parser_of(component, settings.max_length)
    source: LineSource | None = None
    if not settings.columns and settings.form.delimiter is None:
        from regard.experiments.bulk.annotated_source import annotated_source  # with all readers

        source = annotated_source(component, file, settings)
    source = source or table_source(component, file, settings)
    return source or LineSource(file, parse, **settings.of_lines)


def is_empty_table(file: str, columns: Sequence[str] | None, form: TableFormat) -> bool:
    """Whether a file is a table without rows, as those who write tables in parts leave some."""
    suffix = suffix_of(file)
    if not (columns or form.delimiter or suffix in FORMATS) or not Path(file).is_file():
        return False
    rows = open_rows(file, form=form)
    return not any(raw.strip() for _, raw in rows.lines(Arrivals()))


def refuse_folder_or_image(file: str) -> None:
    """Refuse a folder or an image as the input of a model of texts."""
    from regard.images.decode import SUFFIXES

    if Path(file).is_dir() or Path(file).suffix.lower() in SUFFIXES:
        raise BadInput(f"{file}: this model reads texts; name a file with a text on each line")
