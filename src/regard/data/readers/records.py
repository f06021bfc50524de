"""Checked fields of files: cells of a table by column, values of JSON by key."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from regard.data.sources import (
    BadExample,
    Csv,
    DropCounts,
    Lines,
    Table,
    name_of,
    read_lines,
    read_rows,
    read_texts,
)
from regard.ground.errors import BadInput

Item = TypeVar("Item")
Made = TypeVar("Made")
Column = int | str
Cells = dict[Column, str]

KINDS: dict[type, str] = {
    dict: "a JSON object",
    list: "a list",
    str: "text",
    int: "a whole number",
    bool: "true or false",
}


def parsed(
    items: Iterable[tuple[str, Item]],
    parse: Callable[[str, Item], Made],
    dropped: DropCounts | None,
) -> Iterator[Made]:
    """The results of `parse`; with `dropped`, bad examples are left out and counted."""
    for where, item in items:
        try:
            made = parse(where, item)
        except BadExample as flaw:
            if dropped is None:
                raise
            dropped[flaw.reason] += 1
        else:
            yield made


def columns(
    table: Table,
    dropped: DropCounts | None,
    may_lack: Sequence[Column] = (),
    unnamed: Sequence[str] = (),
) -> Iterator[tuple[str, Cells]]:
    """(where, cells by column) of every row of a table.

    Columns in `may_lack` may be missing from the header, and so from all rows. If the first line
    has as many cells as `unnamed` has names, there is no header, and these are the names.
    """
    rows = read_rows(table, dropped)
    header: Sequence[str] = ()
    if any(isinstance(column, str) for column in table.columns):
        first = next(rows, None)
        if first is None:
            raise BadInput(f"{name_of(table.path)}: empty, without a header")
        header = first[1]
        if len(header) == len(unnamed):
            header, rows = unnamed, chain([first], rows)
    places = _places(table, header, may_lack)

    def by_column(where: str, cells: list[str]) -> tuple[str, Cells]:
        for place in places.values():
            if not 0 <= place < len(cells):
                detail = f"no column {place}, counted from 0: the line has {len(cells)}"
                raise BadExample(where, "without a column", detail)
        return where, {column: cells[place] for column, place in places.items()}

    yield from parsed(rows, by_column, dropped)


def table_of(path: Path, names: Sequence[Column], comma: bool = False) -> Table:
    return (Csv if comma else Table)(str(path), tuple(names))


def objects(path: Path, dropped: DropCounts | None) -> Iterator[tuple[str, dict[str, Any]]]:
    """(where, object) of every line of JSON."""

    def parse(where: str, line: str) -> tuple[str, dict[str, Any]]:
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise BadExample(where, "not JSON", f"not JSON ({error})") from None
        return where, dict(typed(record, dict, "the line", where))

    return parsed(read_texts(Lines((str(path),)), dropped=dropped), parse, dropped)


def document(path: Path) -> dict[str, Any]:
    """The JSON object in a file."""
    name = name_of(path)
    text = "\n".join(read_lines(path))
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        raise BadInput(f"{name}:{error.lineno}: not JSON ({error.msg})") from None
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{name}: not JSON ({error})") from None
    return dict(typed(content, dict, "the file", name))


def value_of(record: dict[str, Any], key: str, where: str) -> Any:
    """The value of a key; ``"translation.en"`` is "en" inside "translation", unless it is a key."""
    value: Any = record
    for step in [key] if key in record else key.split("."):
        if not isinstance(value, dict) or step not in value:
            raise BadExample(where, "without a key", f"no key {key!r}")
        value = value[step]
    return value


def typed(value: Any, kind: type, name: str, where: str) -> Any:
    """The value, if it has that JSON type."""
    if type(value) is not kind:
        raise BadExample(where, f"not {KINDS[kind]}", f"{name} is not {KINDS[kind]}")
    if isinstance(value, str) and any("\ud800" <= one <= "\udfff" for one in value):
        raise BadExample(where, "not UTF-8", f"{name} holds half a surrogate pair")
    return value


def held(record: dict[str, Any], key: str, kind: type, where: str) -> Any:
    """The value of a key, if it has that JSON type."""
    return typed(value_of(record, key, where), kind, f"the value of {key!r}", where)


def filled(text: str, where: str) -> str:
    """The text, if it is not empty."""
    if not text or text.isspace():
        raise BadExample(where, "empty", "empty text")
    return text


def one_of(labels: Sequence[str], label: str, where: str) -> str:
    """The label, if the task has it."""
    if label not in labels:
        detail = f"the label is {label!r}, not one of {', '.join(labels)}"
        raise BadExample(where, "with an unknown label", detail)
    return label


def _places(table: Table, header: Sequence[str], may_lack: Sequence[Column]) -> dict[Column, int]:
    places: dict[Column, int] = {}
    for column in table.columns:
        if isinstance(column, int):
            places[column] = column
        elif column in header:
            places[column] = header.index(column)
        elif column not in may_lack:
            known = ", ".join(header)
            raise BadInput(f"{name_of(table.path)}:1: no column {column!r} among {known!r}")
    return places


def json_object(line: str, where: str) -> dict[str, Any]:
    """The JSON object in a line."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{where}: not JSON ({error})") from None
    return dict(typed(record, dict, "the line", where))
