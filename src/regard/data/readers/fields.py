"""Checked values of examples: a bad example is an error with its place, or left out and counted."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar, cast

from regard.core.errors import BadInput
from regard.core.files import JSON

Item = TypeVar("Item")
Parsed = TypeVar("Parsed")
Kind = TypeVar("Kind")

KINDS: dict[type, str] = {dict: "a JSON object", list: "a list", str: "text"}
KINDS |= {int: "a whole number", bool: "true or false"}

NAN = ("nan", "NaN")
ONE_VALUE = 'write one value per line, as {"text": "…"}'


class DropCounts(Counter[str]):
    """The number of examples left out, by reason: ``3 empty, 1 too long``; ``first``: an error."""

    first = ""

    def __str__(self) -> str:
        return ", ".join(f"{count:,} {reason}" for reason, count in self.most_common()) or "none"


Dropped = DropCounts | None
"""Counts of the examples left out; None: a bad example is an error."""


class BadExample(BadInput):
    """A bad example; the only input error that may be left out and counted instead."""

    def __init__(self, where: str, reason: str, detail: str = ""):
        super().__init__(f"{where}: {detail or reason}")
        self.reason = reason


def parsed(
    items: Iterable[tuple[str, Item]], parse: Callable[[str, Item], Parsed], dropped: Dropped
) -> Iterator[Parsed]:
    """Parse items; with `dropped`, bad examples are left out and counted."""
    for where, item in items:
        try:
            example = parse(where, item)
        except BadExample as flaw:
            if dropped is None:
                raise
            dropped[flaw.reason] += 1
            dropped.first = dropped.first or str(flaw)
        else:
            yield example


def filled(text: str, where: str, detail: str = "empty text") -> str:
    """Return a text; refuse an empty one."""
    if not text or text.isspace():
        raise BadExample(where, "empty", detail)
    return text


def present(text: str, where: str, name: str) -> str:
    """Return the text of a cell; refuse the spelling of a missing value that pandas writes."""
    if text.strip() in NAN:
        raise BadExample(where, "missing", f"{name} is {text.strip()!r}: a missing value")
    return text


def typed(value: object, kind: type[Kind], name: str, where: str) -> Kind:
    """Return a value of a JSON type; refuse other types."""
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise BadExample(where, f"not {KINDS[kind]}", f"{name} is not {KINDS[kind]}")
    if isinstance(value, str) and any("\ud800" <= letter <= "\udfff" for letter in value):
        raise BadExample(where, "not UTF-8", f"{name} has a surrogate without its pair")
    return value


def label_text(value: object, name: str, where: str) -> str:
    """Label as text; a number, true and false are converted."""
    text = str(value) if isinstance(value, int | float) else typed(value, str, name, where)
    return present(text, where, name)


def one_of(labels: Sequence[str], label: str, where: str) -> str:
    """Return the label if it is one of ``labels``; refuse others."""
    if label not in labels:
        detail = f"the label is {label!r}, not one of {', '.join(labels)}"
        raise BadExample(where, "with an unknown label", detail)
    return label


def json_value(line: str, where: str) -> JSON:
    """The JSON value in a line."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadExample(where, "not JSON", f"not JSON ({error}); {ONE_VALUE}") from None


def json_object(line: str, where: str) -> dict[str, JSON]:
    """The JSON object in a line."""
    return typed(json_value(line, where), dict, "the line", where)


def value_of(record: JSON, key: str, where: str) -> JSON:
    """Value of a key; ``"translation.en"`` is "en" in "translation", unless there is such a key."""
    literal = isinstance(record, dict) and key in record
    for step in [key] if literal else key.split("."):
        if not isinstance(record, dict) or step not in record:
            raise BadExample(where, "without a key", f"no key {key!r}")
        record = record[step]
    return record


def field_of(record: Mapping[str, object], key: str, kind: type[Kind], where: str) -> Kind:
    """The value of a key, which must have a JSON type."""
    value = value_of(cast(dict[str, JSON], {**record}), key, where)
    return typed(value, kind, f"the value of {key!r}", where)
