"""Lines that a verb asks a model about: each is understood or named, and empty ones stay empty.

They are answered as they come. What is there when a pipe or a terminal pauses makes a window, so
that whoever writes a line and waits gets its answer, and fast input still fills batches.
"""

import json
import sys
from collections.abc import Callable, Iterator
from itertools import islice
from time import monotonic
from typing import Annotated, Any, NamedTuple

import typer

from regard.data.arrivals import Arrivals
from regard.data.readers.records import typed
from regard.data.sources import name_of, read_lines
from regard.ground.errors import BadInput, BadItem
from regard.tasks.batch_runner import WINDOW
from regard.text.vocabulary import Vocabulary

PAUSE = 0.02  # seconds without a line, which end a window
PATIENCE = 0.2  # seconds after which a window takes only what is there
LONGEST = 1_024  # tokens of a line, unless told otherwise

MAX_LENGTH = Annotated[
    int, typer.Option("--max-length", min=1, help="A line of more tokens is an error.")
]

Parse = Callable[[str, str], Any]
"""From a line, and where it stands, to what a model is asked."""

Predict = Callable[[list[Any]], list[Any]]
"""What a model says of each of several inputs; one that is wrong is a ``BadItem``."""


class Line(NamedTuple):
    """A line by its number, and what is in it or was said of it; nothing if it is empty."""

    number: int
    said: Any


def answered(file: str, parse: Parse, predict: Predict) -> Iterator[Line]:
    """What is said of every line of a file, window by window."""

    def parsed(line: str, where: str) -> Any | None:
        return parse(line, where) if line.strip() else None

    for window in windows(file, parsed):
        replies = replied(file, [line for line in window if line.said is not None], predict)
        for line in window:
            yield line if line.said is None else next(replies)


def replied(file: str, window: list[Line], predict: Predict, first: int = 1) -> Iterator[Line]:
    """What is said of every line of a window, whose lines ``predict`` counts from ``first``.

    A line that it refuses is an error that names the line, once all before it are yielded.
    """
    if not window:
        return
    try:
        said = predict([one for _, one in window])
    except BadItem as bad:
        index = bad.number - first
        yield from replied(file, window[:index], predict, first)
        raise BadInput(f"{name_of(file)}:{window[index].number}: {bad.reason}") from None
    for (number, _), one in zip(window, said, strict=True):
        yield Line(number, one)


def windows(file: str, parse: Parse, most: int = WINDOW) -> Iterator[list[Line]]:
    """The lines of a file, parsed, as they come: at most ``most`` at once.

    What was printed goes out before more is waited for. A bad line is an error once all lines
    before it have been yielded, wherever windows end.
    """
    arrivals = Arrivals()
    lines = _parsed(read_lines(file, arrivals), parse, name_of(file))
    error = None
    while error is None:
        sys.stdout.flush()
        window: list[Line] = []
        try:
            for line in _until_pause(lines, arrivals, most):
                window.append(line)  # one by one: those before an error are kept
        except BadInput as bad:
            error = bad
        if not window:
            break
        yield window
    if error is not None:
        raise error


def _parsed(lines: Iterator[str], parse: Parse, name: str) -> Iterator[Line]:
    for number, line in enumerate(lines, start=1):
        yield Line(number, parse(line, f"{name}:{number}"))


def _until_pause(lines: Iterator[Line], arrivals: Arrivals, most: int) -> Iterator[Line]:
    """The next line, and those that follow it without a pause."""
    yield from islice(lines, 1)
    begun = monotonic()
    for _ in range(most - 1):
        patient = monotonic() - begun < PATIENCE
        if not arrivals.ready(PAUSE if patient else 0):
            return
        yield from islice(lines, 1)


def check_length(text: str, vocabulary: Vocabulary, most: int, where: str) -> None:
    """A text of more than ``most`` tokens is an error: it would take for ever."""
    if len(text.encode()) <= most:  # no token is less than a byte
        return
    count = len(vocabulary.encode(text))
    if count > most:
        raise BadInput(
            f"{where}: {count:,} tokens, more than {most:,}; "
            "break the line into sentences, or allow more by --max-length"
        )


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
