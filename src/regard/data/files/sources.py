"""Text from plain lines, columns of a table or fields of JSON lines; also .gz, .xz, standard input.

A bad line is an error with file and line, or left out and counted.
"""

import csv
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import chain, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from regard.data.files.arrivals import Arrivals
from regard.data.files.fields import (
    BadExample,
    Dropped,
    filled,
    json_object,
    json_value,
    parsed,
    typed,
    value_of,
)
from regard.data.files.text_files import STDIN, decoded, name_of, raw_lines, read_lines
from regard.ground.checks import is_whole
from regard.ground.errors import BadInput
from regard.ground.files import JSON, status_of
from regard.text.hansards import LANGUAGES

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

LARGEST_JSON = 1 << 30  # bytes of a JSON file that is read as a whole, perhaps in one line
Column = int | str
Unparsed = tuple[list[str], Callable[[], tuple[str, ...]]]
"""The place of every text of an example, and a function that parses its texts."""
Examples = Iterator[Unparsed]
NumberedLines = Iterator[tuple[int, bytes]]  # lines of a file, counted from 1


class Source(Protocol):
    """Examples of one text or several, in files or in memory."""

    @property
    def paths(self) -> tuple[str, ...]: ...
    @property
    def spaced(self) -> tuple[str, ...]: ...
    @property
    def name(self) -> str: ...
    @property
    def origin(self) -> dict[str, object]: ...
    def examples(self) -> Examples: ...


class FileSource:
    """Base class of examples in the lines of files, all of which are ``paths``.

    A source may name, for each text of an example, a language of ``regard.text.hansards`` by whose
    rules words are separated (``spaced``).
    """

    paths: Any
    spaced: tuple[str, ...]

    @property
    def name(self) -> str:
        """The name of the source in messages."""
        return ", ".join(map(name_of, self.paths))

    @property
    def origin(self) -> dict[str, object]:
        """Settings of the source, and sizes and times of its files, to detect changes."""
        stats = [(path, status_of(path)) for path in self.paths if path != STDIN]
        return {
            "kind": type(self).__name__,
            "source": asdict(cast("DataclassInstance", self)),
            "files": [(path, stat.st_size, stat.st_mtime_ns) for path, stat in stats],
        }

    def examples(self) -> Examples:
        """All examples, not yet parsed."""
        raise NotImplementedError


@dataclass(frozen=True)
class Lines(FileSource):
    """Plain text, one file for each side: ``Lines(("train.en", "train.de.gz"))``."""

    paths: tuple[str, ...]
    spaced: tuple[str, ...] = ()

    def examples(self) -> Examples:
        names = [name_of(path) for path in self.paths]
        for number, raws in enumerate(_aligned(self.paths), start=1):
            places = [f"{name}:{number}" for name in names]
            yield places, partial(tuple, map(decoded, raws, places))


@dataclass(frozen=True)
class OneFile(FileSource):
    """Base class of sources in one file."""

    path: str

    @property
    def paths(self) -> tuple[str, ...]:
        return (self.path,)

    def lines(self) -> NumberedLines:
        """The lines of the file."""
        return enumerate(raw_lines(self.path), start=1)

    def place(self, number: int) -> str:
        """The place of a line in messages."""
        return f"{name_of(self.path)}:{number}"


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


def read_pairs(
    source: Source, longest_characters: int | None = 5_000, dropped: Dropped = None
) -> Iterator[tuple[str, str, str]]:
    """Read (where, source text, target text) of every pair.

    A line that is empty, not UTF-8, longer than `longest_characters`, not JSON, or lacks a column
    or key is an error; with `dropped`, it is left out and counted.
    """
    for where, (first, second) in read_examples(source, longest_characters, dropped):
        yield where, first, second


def read_texts(
    source: Source, longest_characters: int | None = None, dropped: Dropped = None
) -> Iterator[tuple[str, str]]:
    """Read (where, text) of every example with one text; otherwise as `read_pairs`."""
    for where, (text,) in read_examples(source, longest_characters, dropped):
        yield where, text


def read_examples(
    source: Source, longest_characters: int | None, dropped: Dropped
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Read (where, texts) of every example, with any number of texts; otherwise as `read_pairs`."""

    def parse(where: str, example: Unparsed) -> tuple[str, tuple[str, ...]]:
        places, parse_texts = example
        texts = parse_texts()
        if source.spaced:
            languages = zip(source.spaced, texts, strict=True)
            texts = tuple(LANGUAGES[language](text) for language, text in languages)
        for text, place in zip(texts, places, strict=True):
            length = len(filled(text, place))
            if longest_characters is not None and length > longest_characters:
                most = f"more than the {longest_characters:,} allowed (data.longest_characters)"
                raise BadExample(place, "too long", f"{length:,} characters, {most}")
        return where, texts

    return parsed(((example[0][0], example) for example in source.examples()), parse, dropped)


def read_cells(table: Table, dropped: Dropped = None) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Read (where, cells) of every line of a table; cells may be empty."""
    lines = ((places[0], parse) for places, parse in table.examples())
    return parsed(lines, lambda where, parse: (where, parse()), dropped)


def read_objects(path: Path, dropped: Dropped) -> Iterator[tuple[str, dict[str, JSON]]]:
    """Read (where, object) of every line of JSON."""
    lines = read_texts(Lines((str(path),)), dropped=dropped)
    return parsed(lines, lambda where, line: (where, json_object(line, where)), dropped)


def read_json_file(path: Path) -> dict[str, JSON]:
    """The JSON object in a file."""
    name, text = name_of(path), "\n".join(read_lines(path, Arrivals(LARGEST_JSON)))
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        raise BadInput(f"{name}:{error.lineno}: not JSON ({error.msg})") from None
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{name}: not JSON ({error})") from None
    return typed(content, dict, "the file", name)


def _json_text(record: JSON, key: str, where: str) -> str:
    value = value_of(record, key, where)
    return str(value) if is_whole(value) else typed(value, str, f"the value of {key!r}", where)


def _aligned(paths: tuple[str, ...]) -> Iterator[tuple[bytes, ...]]:
    """The lines of parallel files; different numbers of lines are an error."""
    if paths.count(STDIN) > 1:
        raise BadInput("standard input can only be read once")
    files = [raw_lines(path) for path in paths]
    for number, lines in enumerate(zip_longest(*files)):
        if None in lines:
            ends = zip(lines, files, strict=True)
            lengths = [number + (line is not None) + sum(1 for _ in file) for line, file in ends]
            other = next(i for i, length in enumerate(lengths) if length != lengths[0])
            first, second = (f"{name_of(paths[i])} has {lengths[i]}" for i in (0, other))
            raise BadInput(f"parallel files must have equally many lines: {first}, {second}")
        yield lines
