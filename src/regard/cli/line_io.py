"""Input lines of a verb: parsed, checked and predicted in the order in which they arrive.

Lines are processed in windows. A window ends where a pipe or a terminal pauses, so that whoever
writes a line and waits gets its result, while fast input still fills batches.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

from regard.cli.console import note
from regard.cli.options import MAX_TOKENS
from regard.data.arrivals import Arrivals
from regard.data.readers.images import image_files
from regard.data.sources import name_of, read_lines
from regard.ground.errors import BadInput, BadItem
from regard.images.decode import SUFFIXES
from regard.text.vocabulary import Vocabulary, token_count

if TYPE_CHECKING:
    from regard.api import Model
    from regard.tasks.batch_runner import Predictor

PAUSE = 0.02  # seconds without a line that end a window
PATIENCE = 0.2  # seconds after which a window takes only lines that have arrived
WINDOW = 4_096  # lines

Parse = Callable[[str, str], Any]
"""From a line and its place ("file:number") to the input of a model."""

TokenCount = Callable[[Any, int], int]
"""From an input and a limit to its tokens, special ones counted, exact beyond the limit."""

Predict = Callable[[list[Any]], list[Any]]
"""From inputs to one result each; an invalid input raises ``BadItem``."""


Lines = Callable[[str, Arrivals], Iterator[str]]
"""From a file to its lines, as they arrive."""


class Line(NamedTuple):
    """The number of a line, and its input or its result; None if the line is empty."""

    number: int
    value: Any


def predict_lines(
    file: str, parse: Parse, predict: Predict, lines: Lines = read_lines
) -> Iterator[Line]:
    """The result of every line of a file, window by window; None for an empty line."""

    def parse_text(line: str, where: str) -> Any | None:
        return parse(line, where) if line.strip() else None

    for window in read_windows(file, parse_text, lines=lines):
        inputs = [line for line in window if line.value is not None]
        results = predict_window(file, inputs, predict)
        for line in window:
            yield line if line.value is None else next(results)


def image_lines(file: str, arrivals: Arrivals) -> Iterator[str]:
    """The paths of images: the file itself, all in a folder, or one on each line of the file."""
    path = Path(file)
    if path.is_dir():
        return map(str, image_files(path))
    return iter([file]) if path.suffix.lower() in SUFFIXES else read_lines(file, arrivals)


def lines_for(model: "Model") -> Lines:
    """How FILE becomes the inputs of a model: a text on each line, or images."""
    return image_lines if model.facts.encoder.embed.reads_images else read_lines


def predict_window(
    file: str, window: list[Line], predict: Predict, first: int = 1
) -> Iterator[Line]:
    """The result of every line of a window, whose lines ``predict`` counts from ``first``.

    For an invalid line the error names the line, after the results of all lines before it.
    """
    if not window:
        return
    try:
        results = predict([value for _, value in window])
    except BadItem as bad:
        index = bad.number - first
        yield from predict_window(file, window[:index], predict, first)
        raise BadInput(f"{name_of(file)}:{window[index].number}: {bad.reason}") from None
    for (number, _), result in zip(window, results, strict=True):
        yield Line(number, result)


def read_windows(
    file: str, parse: Parse, most: int = WINDOW, lines: Lines = read_lines
) -> Iterator[list[Line]]:
    """The lines of a file, parsed, as they arrive: at most ``most`` at once.

    Standard output is flushed before more input is waited for. An invalid line raises its error
    after all lines before it have been yielded, wherever windows end.
    """
    arrivals = Arrivals()
    coming = _parse_lines(lines(file, arrivals), parse, name_of(file))
    error = None
    while error is None:
        sys.stdout.flush()
        window: list[Line] = []
        try:
            for line in _until_pause(coming, arrivals, most):
                window.append(line)  # one by one: those before an error are kept
        except BadInput as bad:
            error = bad
        if not window:
            break
        yield window
    if error is not None:
        raise error


def _parse_lines(lines: Iterator[str], parse: Parse, name: str) -> Iterator[Line]:
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


def with_max_length(
    parse: Parse, count: TokenCount, given: int | None, limit: int | None = None
) -> Parse:
    """The same parser; an input of more tokens than ``given`` is an error.

    Without ``given``, models without a ``limit`` of their own, by which they truncate or refuse
    texts, have one here.
    """
    most = given or (MAX_TOKENS if limit is None else None)
    if most is None:
        return parse

    def parse_short(line: str, where: str) -> Any:
        value = parse(line, where)
        _check_count(count(value, most), most, where)
        return value

    return parse_short


def without_cuts(parse: Parse, count: TokenCount, limit: int | None) -> Parse:
    """The same parser; an input that the model would cut to ``limit`` tokens is an error."""
    if limit is None:
        return parse

    def parse_whole(line: str, where: str) -> Any:
        value = parse(line, where)
        if (tokens := count(value, limit)) > limit:
            raise BadInput(f"{where}: {tokens:,} tokens, and the model reads {limit:,}: shorten it")
        return value

    return parse_whole


def check_length(
    texts: Sequence[str], vocabulary: Vocabulary, most: int, where: str, special: int = 1
) -> None:
    """Refuse texts that make a row of more than ``most`` tokens, ``special`` ones counted."""
    _check_count(token_count(texts, vocabulary, special, most), most, where)


def _check_count(count: int, most: int, where: str) -> None:
    """Attention is quadratic in the number of tokens."""
    if count > most:
        raise BadInput(
            f"{where}: {count:,} tokens, more than {most:,}; "
            "split the line into sentences, or raise --max-length"
        )


class CutInputs:
    """A predictor that says of each result whether only the beginning of its texts was read."""

    def __init__(self, predictor: "Predictor"):
        self.predictor, self.cut, self.all = predictor, 0, 0

    def predict(self, inputs: list[Any]) -> list[tuple[Any, bool]]:
        """(result, whether its input was cut) of each."""
        results = self.predictor.predict(inputs)
        cut = [self.predictor.is_cut(one) for one in inputs]
        self.cut, self.all = self.cut + sum(cut), self.all + len(cut)
        return [*zip(results, cut, strict=True)]

    def report(self) -> None:
        """Print how many inputs were cut, if any were."""
        if self.cut:
            note(f"{self.cut:,} of {self.all:,} inputs were cut: {self.predictor.cut_reason}")


def check_argument(text: str, second: str | None = None) -> None:
    """Refuse a text of the command line that is empty or not UTF-8."""
    if not text.strip():
        raise BadInput("there is no text")
    if any("\ud800" <= character <= "\udfff" for character in text + (second or "")):
        raise BadInput("the text is not UTF-8")


def plain_text(line: str, where: str) -> str:
    """The line is one text."""
    return line
