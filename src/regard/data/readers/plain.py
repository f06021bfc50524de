"""Examples in plain formats: columns of a table, or fields of JSON lines."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from regard.data.readers.examples import LabelledExample, TaggedExample
from regard.data.readers.records import (
    Cells,
    Column,
    columns,
    filled,
    held,
    objects,
    parsed,
    table_of,
    typed,
    value_of,
)
from regard.data.sources import BadExample, DropCounts
from regard.ground.errors import BadInput


def tsv(
    path: Path,
    dropped: DropCounts | None = None,
    texts: tuple[Column, ...] = ("text",),
    label: Column | None = None,
    separator: str | None = None,
) -> Iterator[LabelledExample]:
    """One text or two and their label from columns, by name or counted from 0.

    With `separator`, a cell holds several labels. Without `label`, labels are hidden.
    """
    return _from_columns(path, dropped, texts, label, separator, comma=False)


def csv(
    path: Path,
    dropped: DropCounts | None = None,
    texts: tuple[Column, ...] = ("text",),
    label: Column | None = None,
    separator: str | None = None,
) -> Iterator[LabelledExample]:
    """The same from comma-separated columns, quoted by RFC 4180."""
    return _from_columns(path, dropped, texts, label, separator, comma=True)


def jsonl(
    path: Path,
    dropped: DropCounts | None = None,
    texts: tuple[str, ...] = ("text",),
    label: str | None = None,
    separator: str | None = None,
) -> Iterator[LabelledExample]:
    """The same from the keys of JSON objects; a list holds several labels at once."""
    _check(texts, separator)

    def parse(where: str, record: dict[str, Any]) -> LabelledExample:
        found = tuple(filled(held(record, key, str, where), where) for key in texts)
        if label is None:
            return LabelledExample(where, found, None)
        value = value_of(record, label, where)
        if isinstance(value, list):
            return LabelledExample(
                where, found, tuple(_written(one, label, where) for one in value)
            )
        return LabelledExample(
            where, found, _labels(_written(value, label, where), separator, where)
        )

    return parsed(objects(path, dropped), parse, dropped)


def tagged_jsonl(
    path: Path, dropped: DropCounts | None = None, words: str = "words", tags: str = "tags"
) -> Iterator[TaggedExample]:
    """Sentences from two lists of equal length in each JSON object."""

    def parse(where: str, record: dict[str, Any]) -> TaggedExample:
        found = held(record, words, list, where)
        named = held(record, tags, list, where)
        if not found or len(found) != len(named):
            detail = f"{len(found)} words and {len(named)} tags"
            raise BadExample(where, "not a tag for each word", detail)
        return TaggedExample(
            where,
            tuple(filled(typed(word, str, "a word", where), where) for word in found),
            tuple(filled(_written(tag, tags, where), where) for tag in named),
        )

    return parsed(objects(path, dropped), parse, dropped)


def _from_columns(
    path: Path,
    dropped: DropCounts | None,
    texts: tuple[Column, ...],
    label: Column | None,
    separator: str | None,
    comma: bool,
) -> Iterator[LabelledExample]:
    _check(texts, separator)
    table = table_of(path, texts if label is None else (*texts, label), comma)

    def parse(where: str, cells: Cells) -> LabelledExample:
        found = tuple(filled(cells[column], where) for column in texts)
        labels = None if label is None else _labels(cells[label], separator, where)
        return LabelledExample(where, found, labels)

    return parsed(columns(table, dropped), parse, dropped)


def _check(texts: tuple[Column, ...], separator: str | None) -> None:
    if not 1 <= len(texts) <= 2:
        raise BadInput(f"an example is one text or two, not {len(texts)}")
    if separator == "":
        raise BadInput("a separator of labels is at least one character")


def _labels(cell: str, separator: str | None, where: str) -> tuple[str, ...]:
    if separator is None:
        return (filled(cell, where).strip(),)
    return tuple(one.strip() for one in cell.split(separator) if one.strip())


def _written(value: Any, key: str, where: str) -> str:
    """A label as text; integers are accepted."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return str(typed(value, str, f"the value of {key!r}", where))
