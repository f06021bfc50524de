"""Text from plain lines, columns of a table or fields of JSON lines; also .gz, .xz, standard input.

A bad line is an error with file and line, or left out and counted.
"""

import csv
import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any, cast

from regard.data.arrivals import Arrivals
from regard.data.text_files import STDIN, name_of, raw_lines
from regard.ground.errors import BadInput
from regard.text.hansards import LANGUAGES

_Numbered = Iterator[tuple[int, tuple[bytes, ...]]]  # lines of all files, counted from 1


class FileSource:
    """Examples in the lines of files, all of which are ``paths``."""

    paths: Any

    @property
    def name(self) -> str:
        """What messages call it."""
        return ", ".join(map(name_of, self.paths))

    @property
    def origin(self) -> dict[str, Any]:
        """What its examples are, without reading them: its settings, sizes and times of files."""
        try:
            stats = [(path, Path(path).stat()) for path in self.paths if path != STDIN]
        except OSError as error:
            raise BadInput(f"{error.filename}: cannot be read ({error.strerror})") from None
        return {
            "kind": type(self).__name__,
            "source": asdict(cast(Any, self)),
            "files": [(path, stat.st_size, stat.st_mtime_ns) for path, stat in stats],
        }

    def begin(self, lines: _Numbered) -> "tuple[Any, _Numbered]":
        """The source and its lines, without a header."""
        return self, lines

    def fields(self, texts: tuple[str, ...], places: list[str]) -> tuple[str, ...]:
        """The texts of an example, from the lines of all files."""
        return texts

    def examples(self) -> "Iterator[tuple[list[str], Callable[[], tuple[str, ...]]]]":
        """The places of every example, and what parses its texts."""
        names = [name_of(path) for path in self.paths]
        source, lines = self.begin(enumerate(_aligned(self.paths), start=1))

        def parse(raws: tuple[bytes, ...], places: list[str]) -> tuple[str, ...]:
            return source.fields(tuple(map(_decoded, raws, places)), places)

        for number, raws in lines:
            places = [f"{name}:{number}" for name in names]
            yield places, partial(parse, raws, places)


@dataclass(frozen=True)
class Lines(FileSource):
    """Plain text, one file for each side: ``Lines(("train.en", "train.de.gz"))``.

    Any source may name, for each side, a language of ``regard.text.hansards`` to separate words.
    """

    paths: tuple[str, ...]
    spaced: tuple[str, ...] = ()

    @property
    def sides(self) -> int:
        """How many texts an example has."""
        return len(self.paths)


@dataclass(frozen=True)
class OneFile(FileSource):
    """A source of one file, each line of which has all texts of an example."""

    path: str

    @property
    def paths(self) -> tuple[str, ...]:
        return (self.path,)

    def fields(self, texts: tuple[str, ...], places: list[str]) -> tuple[str, ...]:
        """The texts of an example, from its line."""
        (line,), where = texts, places[0]
        if not line or line.isspace():
            raise BadExample(where, "empty", "empty line")
        return self.parse(line, where)

    def parse(self, line: str, where: str) -> tuple[str, ...]:
        """The texts in a line."""
        raise NotImplementedError


@dataclass(frozen=True)
class Table(OneFile):
    """Tab-separated columns of one file, by number from 0 or by the name in its first line.

    There is no quoting.
    """

    columns: tuple[int | str, ...]
    spaced: tuple[str, ...] = ()

    @property
    def sides(self) -> int:
        """How many texts an example has."""
        return len(self.columns)

    def records(self, lines: _Numbered) -> _Numbered:
        """The lines of the table; in CSV several lines of a file may be one."""
        return lines

    def cells(self, line: str, where: str) -> list[str]:
        """All columns of a line."""
        return line.split("\t")

    def begin(self, lines: _Numbered) -> "tuple[Table, _Numbered]":
        """The table with columns that are counted, and its lines without names of columns."""
        lines = self.records(lines)
        if not any(isinstance(column, str) for column in self.columns):
            return self, lines
        where = f"{name_of(self.path)}:1"
        header = self.cells(_decoded(next(lines, (1, (b"",)))[1][0], where), where)

        def number(column: int | str) -> int:
            if isinstance(column, int):
                return column
            if column not in header:
                raise BadInput(f"{where}: no column {column!r} among {', '.join(header)!r}")
            return header.index(column)

        return replace(self, columns=tuple(map(number, self.columns))), lines

    def parse(self, line: str, where: str) -> tuple[str, ...]:
        cells = self.cells(line, where)
        for column in self.columns:
            if not 0 <= cast(int, column) < len(cells):
                detail = f"no column {column}, counted from 0: the line has {len(cells)}"
                raise BadExample(where, "without a column", detail)
        return tuple(cells[cast(int, column)] for column in self.columns)


@dataclass(frozen=True)
class Csv(Table):
    """The same with commas, quoted by RFC 4180."""

    def records(self, lines: _Numbered) -> _Numbered:
        """Lines joined until their quotes are closed, under the number of the first."""
        first, begun = 1, b""
        for number, (raw,) in lines:
            first, begun = (first, begun + b"\n" + raw) if begun else (number, raw)
            if begun.count(b'"') % 2 == 0:
                yield first, (begun,)
                begun = b""
        if begun:
            raise BadInput(f"{name_of(self.path)}:{first}: a quote that is never closed")

    def cells(self, line: str, where: str) -> list[str]:
        try:
            (cells,) = csv.reader([line], strict=True)
        except (csv.Error, ValueError) as error:
            raise BadExample(where, "not CSV", f"not CSV ({error})") from None
        return cells


@dataclass(frozen=True)
class JsonLines(OneFile):
    """One JSON object per line; ``"translation.en"`` is the key "en" inside "translation".

    Integers are read as text, since labels often are integers.
    """

    keys: tuple[str, ...]
    spaced: tuple[str, ...] = ()

    @property
    def sides(self) -> int:
        """How many texts an example has."""
        return len(self.keys)

    def parse(self, line: str, where: str) -> tuple[str, ...]:
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise BadExample(where, "not JSON", f"not JSON ({error})") from None
        return tuple(_json_text(record, key, where) for key in self.keys)


Source = Lines | Table | JsonLines


class DropCounts(Counter[str]):
    """The number of examples left out, by reason: ``3 empty, 1 too long``."""

    def __str__(self) -> str:
        return ", ".join(f"{count:,} {reason}" for reason, count in self.most_common()) or "none"


class BadExample(BadInput):
    """A bad example; the only input error that may be left out and counted instead."""

    def __init__(self, where: str, reason: str, detail: str = ""):
        super().__init__(f"{where}: {detail or reason}")
        self.reason = reason


def read_lines(path: str | Path, arrivals: Arrivals | None = None) -> Iterator[str]:
    """The lines of a UTF-8 file, of standard input (``-``), or of a .gz or .xz file.

    Only a line feed (after an optional carriage return) ends a line: other line separators of
    Unicode occur inside sentences, and parallel files must stay parallel. ``arrivals`` tells
    whether the next line has arrived.
    """
    for number, raw in enumerate(raw_lines(path, arrivals), start=1):
        yield _decoded(raw, f"{name_of(path)}:{number}")


def read_pairs(
    source: Source, longest_characters: int | None = 5_000, dropped: DropCounts | None = None
) -> Iterator[tuple[str, str, str]]:
    """(where, source text, target text) of every pair.

    A line that is empty, not UTF-8, longer than `longest_characters`, not JSON, or lacks a column
    or key is an error; with `dropped`, it is left out and counted.
    """
    for where, (first, second) in read_examples(source, 2, longest_characters, dropped):
        yield where, first, second


def read_texts(
    source: Source, longest_characters: int | None = None, dropped: DropCounts | None = None
) -> Iterator[tuple[str, str]]:
    """(where, text) of every example with one text; otherwise as `read_pairs`."""
    for where, (text,) in read_examples(source, 1, longest_characters, dropped):
        yield where, text


def texts_in(source: Table | JsonLines, line: str, where: str) -> tuple[str, ...]:
    """The texts in one line of a source; none may be empty."""
    texts = source.fields((line,), [where])
    for text in texts:
        _check(text, where, None)
    return texts


def read_examples(
    source: Source, sides: int, longest_characters: int | None, dropped: DropCounts | None
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """(where, texts) of every example with any number of texts; otherwise as `read_pairs`."""
    if source.sides != sides:
        raise BadInput(f"{sides} text(s) of each example are needed, not {source.sides}")
    for places, parse in source.examples():
        try:
            texts = parse()
            if source.spaced:
                texts = _spaced(source.spaced, texts)
            for text, place in zip(texts, places * (sides // len(places)), strict=True):
                _check(text, place, longest_characters)
        except BadExample as flaw:
            if dropped is None:
                raise
            dropped[flaw.reason] += 1
        else:
            yield places[0], texts


def read_rows(table: Table, dropped: DropCounts | None = None) -> Iterator[tuple[str, list[str]]]:
    """(where, cells) of every line of a table, including the header."""
    name = name_of(table.path)
    lines: _Numbered = enumerate(_aligned(table.paths), start=1)
    for number, (raw,) in table.records(lines):
        where = f"{name}:{number}"
        try:
            line = _decoded(raw, where)
            _check(line, where, None)
            cells = table.cells(line, where)
        except BadExample as flaw:
            if dropped is None:
                raise
            dropped[flaw.reason] += 1
        else:
            yield where, cells


def _spaced(languages: tuple[str, ...], texts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(LANGUAGES[one](text) for one, text in zip(languages, texts, strict=True))


def _check(text: str, where: str, longest: int | None) -> None:
    if not text or text.isspace():
        raise BadExample(where, "empty", "empty text")
    if longest is not None and len(text) > longest:
        detail = f"{len(text):,} characters, more than the {longest:,} allowed"
        raise BadExample(where, "too long", detail)


def _json_text(record: object, key: str, where: str) -> str:
    value = record
    literal = isinstance(record, dict) and key in record
    for step in [key] if literal else key.split("."):
        if not isinstance(value, dict) or step not in value:
            raise BadExample(where, "without a key", f"no key {key!r}")
        value = value[step]
    if type(value) is int:
        return str(value)
    if not isinstance(value, str):
        raise BadExample(where, "not text", f"the value of {key!r} is not text")
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise BadExample(where, "not UTF-8", f"the value of {key!r} holds half a surrogate pair")
    return value


def _aligned(paths: tuple[str, ...]) -> Iterator[tuple[bytes, ...]]:
    """The lines of parallel files; different numbers of lines are an error."""
    if paths.count(STDIN) > 1:
        raise BadInput("standard input can only be read once")
    files = [raw_lines(path) for path in paths]
    for number, lines in enumerate(zip_longest(*files)):
        if None in lines:
            lengths = [
                number + (line is not None) + sum(1 for _ in file)
                for line, file in zip(lines, files, strict=True)
            ]
            other = next(i for i, length in enumerate(lengths) if length != lengths[0])
            raise BadInput(
                f"{name_of(paths[0])} has {lengths[0]} lines "
                f"but {name_of(paths[other])} has {lengths[other]}"
            )
        yield lines


def _decoded(raw: bytes, where: str) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        column = len(raw[: error.start].decode("utf-8")) + 1
        byte = f"byte 0x{raw[error.start]:02x} at column {column}"
        raise BadExample(where, "not UTF-8", f"not UTF-8 ({byte})") from None
