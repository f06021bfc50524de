"""Where text comes from: plain lines, columns of a table, fields of JSON lines; each of them may be
gz, xz or standard input. What is wrong with it is said with file and line, or dropped and counted.
"""

import codecs
import contextlib
import csv
import gzip
import io
import json
import lzma
import sys
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import BinaryIO, cast

from regard.data.arrivals import Arrivals
from regard.ground.errors import BadInput
from regard.text.hansards import LANGUAGES

STDIN = "-"

_Numbered = Iterator[tuple[int, tuple[bytes, ...]]]  # lines of all files, counted from 1


@dataclass(frozen=True)
class Lines:
    """Plain text, one file for each side: ``Lines(("train.en", "train.de.gz"))``.

    Any source may name, for each side, a language of ``regard.text.hansards`` to separate words.
    """

    paths: tuple[str, ...]
    spaced: tuple[str, ...] = ()


@dataclass(frozen=True)
class Table:
    """Tab-separated columns of one file, counted from 0, or named as in its first line.

    There is no quoting: a tab always ends a column.
    """

    path: str
    columns: tuple[int | str, ...]
    spaced: tuple[str, ...] = ()

    @property
    def paths(self) -> tuple[str, ...]:
        return (self.path,)


@dataclass(frozen=True)
class Csv(Table):
    """The same with commas, by RFC 4180: in quotes a comma or a line end is text, "" a quote."""


@dataclass(frozen=True)
class JsonLines:
    """One JSON object on each line; ``"translation.en"`` is the key "en" inside "translation".

    A whole number is the text of its digits, as labels often are.
    """

    path: str
    keys: tuple[str, ...]
    spaced: tuple[str, ...] = ()

    @property
    def paths(self) -> tuple[str, ...]:
        return (self.path,)


Source = Lines | Table | JsonLines


class DropCounts(Counter[str]):
    """How many examples were left out, by reason: ``3 empty, 1 too long``."""

    def __str__(self) -> str:
        return ", ".join(f"{count:,} {reason}" for reason, count in self.most_common()) or "none"


class BadExample(BadInput):
    """One bad line: the only kind of bad input that may be dropped instead."""

    def __init__(self, where: str, reason: str, detail: str = ""):
        super().__init__(f"{where}: {detail or reason}")
        self.reason = reason


def read_lines(path: str | Path, arrivals: Arrivals | None = None) -> Iterator[str]:
    """The lines of a UTF-8 file, ``-`` being standard input; .gz and .xz are unpacked.

    Only a line feed (after an optional carriage return) ends a line: the other characters Unicode
    calls line separators do occur inside sentences, and parallel files must stay parallel.
    ``arrivals`` can be asked whether the next line is there already.
    """
    for number, raw in enumerate(_raw_lines(path, arrivals), start=1):
        yield _decoded(raw, f"{name_of(path)}:{number}")


def read_pairs(
    source: Source, longest_characters: int | None = 5_000, dropped: DropCounts | None = None
) -> Iterator[tuple[str, str, str]]:
    """(where, source text, target text) of every pair.

    A line that is empty, not UTF-8, longer than `longest_characters`, not JSON, or lacks a column
    or key is an error; with `dropped` it is left out and counted there instead.
    """
    for where, (first, second) in read_examples(source, 2, longest_characters, dropped):
        yield where, first, second


def read_texts(
    source: Source, longest_characters: int | None = None, dropped: DropCounts | None = None
) -> Iterator[tuple[str, str]]:
    """(where, text) of every example of one-sided text; as `read_pairs` otherwise."""
    for where, (text,) in read_examples(source, 1, longest_characters, dropped):
        yield where, text


def texts_in(source: Table | JsonLines, line: str, where: str) -> tuple[str, ...]:
    """The texts of one line of a source whose columns are counted; none may be empty."""
    texts = _fields(source, line, where)
    for text in texts:
        _check(text, where, None)
    return texts


def name_of(path: str | Path) -> str:
    """What messages call a file."""
    return "standard input" if str(path) == STDIN else str(path)


def read_examples(
    source: Source, sides: int, longest_characters: int | None, dropped: DropCounts | None
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """(where, texts) of every example with any number of sides; as `read_pairs` otherwise."""
    match source:
        case Lines(asked) | Table(_, asked) | JsonLines(_, asked):
            if len(asked) != sides:
                raise BadInput(f"{sides} text(s) of each example are needed, not {len(asked)}")
    names = [name_of(path) for path in source.paths]
    lines: _Numbered = enumerate(_aligned(source.paths), start=1)
    if isinstance(source, Csv):
        lines = _records(lines, names[0])
    if isinstance(source, Table) and any(isinstance(column, str) for column in source.columns):
        source = _without_header(source, next(lines, (1, (b"",)))[1][0])
    for number, raws in lines:
        places = [f"{name}:{number}" for name in names]
        try:
            texts = tuple(map(_decoded, raws, places))
            if not isinstance(source, Lines):
                texts = _fields(source, texts[0], places[0])
                places *= sides
            if source.spaced:
                texts = _spaced(source.spaced, texts)
            for text, place in zip(texts, places, strict=True):
                _check(text, place, longest_characters)
        except BadExample as flaw:
            if dropped is None:
                raise
            dropped[flaw.reason] += 1
        else:
            yield places[0], texts


def read_rows(table: Table, dropped: DropCounts | None = None) -> Iterator[tuple[str, list[str]]]:
    """(where, cells) of every line of a table, that with the names of its columns among them."""
    name = name_of(table.path)
    lines: _Numbered = enumerate(_aligned(table.paths), start=1)
    for number, (raw,) in _records(lines, name) if isinstance(table, Csv) else lines:
        where = f"{name}:{number}"
        try:
            line = _decoded(raw, where)
            _check(line, where, None)
            cells = _cells(table, line, where)
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


def _without_header(table: Table, first: bytes) -> Table:
    """The same table with its named columns counted instead."""
    where = f"{name_of(table.path)}:1"
    header = _cells(table, _decoded(first, where), where)

    def place(column: int | str) -> int:
        if isinstance(column, int):
            return column
        if column not in header:
            raise BadInput(f"{where}: no column {column!r} among {', '.join(header)!r}")
        return header.index(column)

    return replace(table, columns=tuple(map(place, table.columns)))


def _fields(source: Table | JsonLines, line: str, where: str) -> tuple[str, ...]:
    if not line or line.isspace():
        raise BadExample(where, "empty", "empty line")
    if isinstance(source, JsonLines):
        return _json_fields(line, source.keys, where)
    cells = _cells(source, line, where)
    for column in source.columns:
        if not 0 <= cast(int, column) < len(cells):
            detail = f"no column {column}, counted from 0: the line has {len(cells)}"
            raise BadExample(where, "without a column", detail)
    return tuple(cells[cast(int, column)] for column in source.columns)


def _cells(table: Table, line: str, where: str) -> list[str]:
    if not isinstance(table, Csv):
        return line.split("\t")
    try:
        (cells,) = csv.reader([line], strict=True)
    except (csv.Error, ValueError) as error:
        raise BadExample(where, "not CSV", f"not CSV ({error})") from None
    return cells


def _records(lines: _Numbered, name: str) -> _Numbered:
    """Lines put together until their quotes are closed, under the number of the first."""
    first, begun = 1, b""
    for number, (raw,) in lines:
        first, begun = (first, begun + b"\n" + raw) if begun else (number, raw)
        if begun.count(b'"') % 2 == 0:
            yield first, (begun,)
            begun = b""
    if begun:
        raise BadInput(f"{name}:{first}: a quote that is never closed")


def _json_fields(line: str, keys: tuple[str, ...], where: str) -> tuple[str, ...]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadExample(where, "not JSON", f"not JSON ({error})") from None
    return tuple(_json_text(record, key, where) for key in keys)


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
    """The lines of all files side by side; files of different length are an error at the end."""
    if paths.count(STDIN) > 1:
        raise BadInput("standard input can only be read once")
    files = [_raw_lines(path) for path in paths]
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


def _raw_lines(path: str | Path, arrivals: Arrivals | None = None) -> Iterator[bytes]:
    """Lines without their ends, and the first without a byte order mark."""
    try:
        with _open(path) as file:
            mark = codecs.BOM_UTF8
            for line in file if arrivals is None else arrivals.lines(file):
                line, mark = line.removeprefix(mark), b""
                if line.endswith(b"\n"):
                    yield line[:-2] if line.endswith(b"\r\n") else line[:-1]
                elif line:
                    yield line
    except (EOFError, zlib.error, lzma.LZMAError) as error:
        raise BadInput(f"{name_of(path)}: damaged or truncated archive ({error})") from None
    except OSError as error:
        raise BadInput(f"{name_of(path)}: cannot be read ({error.strerror or error})") from None


def _open(path: str | Path) -> contextlib.AbstractContextManager[BinaryIO]:
    if str(path) == STDIN:
        return contextlib.nullcontext(sys.stdin.buffer)
    path = Path(path)
    match path.suffix.lower():
        case ".gz":
            if path.stat().st_size == 0:  # gzip itself takes this for an archive of nothing
                raise EOFError("it holds no bytes")
            return io.BufferedReader(gzip.open(path))
        case ".xz":
            return io.BufferedReader(lzma.open(path))
    return path.open("rb")
