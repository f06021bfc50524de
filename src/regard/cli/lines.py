"""Lines that a verb asks a model about: each is understood or named, and empty ones stay empty."""

import json
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, NamedTuple

from regard.data.sources import name_of, read_lines
from regard.data.understanding.records import typed
from regard.ground.errors import BadInput
from regard.tasks.rows import WINDOW

Parse = Callable[[str, str], Any]
"""From a line, and where it stands, to what a model is asked."""


class Line(NamedTuple):
    """A line by its number, and what was said of it; nothing if it is empty."""

    number: int
    said: Any | None


def answered(file: str, parse: Parse, predict: Callable[[list[Any]], list[Any]]) -> Iterator[Line]:
    """What is said of every line of a file, window by window."""
    lines = enumerate(read_lines(file), start=1)
    while window := list(islice(lines, WINDOW)):
        there = [(number, line) for number, line in window if line.strip()]
        asked = [parse(line, f"{name_of(file)}:{number}") for number, line in there]
        said = iter(predict(asked) if asked else [])
        for number, line in window:
            yield Line(number, next(said) if line.strip() else None)


def as_it_is(line: str, where: str) -> str:
    """The line is the text."""
    return line


def one_or_two(line: str, where: str) -> str | tuple[str, str]:
    """A text, or two with a tab between them."""
    first, *others = line.split("\t")
    if len(others) > 1:
        raise BadInput(f"{where}: {len(others) + 1} texts between tabs, and a row has one or two")
    return (first, others[0]) if others else first


def json_object(line: str, where: str) -> dict[str, Any]:
    """The JSON object in a line."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{where}: not JSON ({error})") from None
    return dict(typed(record, dict, "the line", where))
