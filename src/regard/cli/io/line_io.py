"""Input lines of a verb: parsed, checked and predicted in the order in which they arrive.

Lines are processed in windows. A window ends where a pipe or a terminal pauses, so that whoever
writes a line and waits gets its result, while fast input still fills batches.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

from regard.cli.io.console import note, print_json, print_line
from regard.cli.io.output import Command, OutputProgress, output_to
from regard.cli.options import MAX_TOKENS
from regard.data.files.arrivals import Arrivals
from regard.data.files.text_files import decoded, name_of, raw_lines
from regard.ground.errors import BadInput, BadItem
from regard.text.vocabularies.vocabulary import Vocabulary, token_count

if TYPE_CHECKING:
    from regard.inference.component import Component, Result

    AnyComponent = Component[Any, Any, Any]

PAUSE = 0.02  # seconds without a line that end a window
PATIENCE = 0.2  # seconds after which a window takes only lines that have arrived
WINDOW = 4_096  # lines
CHARACTERS = 1 << 26  # of the lines of a window, but for the last

Parse = Callable[[str, str], Any]
"""From a line and its place ("file:number") to the input of a model."""

TokenCount = Callable[[Any, int], int]
"""From an input and a limit to its tokens, special ones counted, exact beyond the limit."""


class Line(NamedTuple):
    """A line with its number, and its input or its result; None if the line is empty, or bad.

    Of a bad one ``error`` says what is wrong, and where.
    """

    number: int
    text: str
    value: Any = None
    error: str | None = None


@dataclass(frozen=True)
class LineSource:
    """A file with an input on each line; at most ``window`` are processed at once.

    With ``skip_bad``, a bad line has an error in place of a result; otherwise it ends the run.
    """

    file: str
    parse: Parse
    window: int = WINDOW
    skip_bad: bool = False

    @property
    def name(self) -> str:
        """Name of the file in messages."""
        return name_of(self.file)

    def lines(self, arrivals: Arrivals) -> Iterator[bytes]:
        """All lines, as they arrive."""
        return raw_lines(self.file, arrivals)

    def decoded(self, raw: bytes, where: str) -> str:
        """The text of a line."""
        return decoded(raw, where)

    def readable(self, raw: bytes) -> str:
        """The text of a line that may be bad."""
        return raw.decode("utf-8", "replace")

    def key(self, text: str) -> str:
        """The part of a line that must be the same where a run is resumed."""
        return text

    def title(self, line: Line) -> str:
        """Text before the result of a line."""
        return ""

    def record(self, line: Line) -> dict[str, object]:
        """The first keys of the JSON record of a line."""
        return {"line": line.number}

    def read(self, lines: Iterator[bytes], first: int, arrivals: Arrivals) -> Iterator[Line]:
        """The lines, parsed, counted from ``first``."""
        return (self._parsed(number, raw) for number, raw in enumerate(lines, first))

    def _parsed(self, number: int, raw: bytes) -> Line:
        where = f"{self.name}:{number}"
        try:
            text = self.decoded(raw, where)
            return Line(number, text, self.parse(text, where))
        except BadInput as error:
            return Line(number, self.readable(raw), None, str(error))


def unless_empty(parse: Parse) -> Parse:
    """A parser for which an empty line has no value, and so no result."""
    return lambda line, where: parse(line, where) if line.strip() else None


def result_lines(
    source: LineSource, component: "AnyComponent", progress: OutputProgress | None = None
) -> Iterator[Line]:
    """The result of every line, window by window; None for one that is empty, or bad.

    An invalid line raises its error after the results of all lines before it.
    """
    for window in read_windows(source, progress):
        inputs = [line for line in window if line.value is not None]
        keys = [line.number - 1 for line in inputs]
        rows = component.prepare([line.value for line in inputs], keys)
        bad = [number for number, row in enumerate(rows) if isinstance(row, BadInput)]
        results = iter(
            component.results(rows if source.skip_bad or not bad else rows[: bad[0] + 1])
        )
        for line in window:
            yield line if line.value is None else _with_result(source, line, next(results))


def _with_result(source: LineSource, line: Line, result: "Result[Any] | BadItem") -> Line:
    if not isinstance(result, BadInput):
        return line._replace(value=result)
    error = f"{source.name}:{line.number}: {result.reason}"
    if not source.skip_bad:
        raise BadInput(error)
    return line._replace(value=None, error=error)


def print_results(
    source: LineSource,
    component: "AnyComponent",
    progress: OutputProgress,
    *,
    as_json: bool,
    **envelope: str,
) -> str:
    """Print the results of a file as lines or as JSON, whose records end with the ``envelope``.

    Returns the sums of their figures in words.
    """
    sums = Counter[str]()
    for line in result_lines(source, component, progress):
        progress.check(line)
        result = line.value
        if as_json:
            records = [component.empty_record] if result is None else component.records(result)
            cut = {"cut": result and result.cut} if component.reports_cuts else {}
            end = {**cut, **({} if line.error is None else {"error": line.error}), **envelope}
            begin = source.record(line) if component.is_numbered else {}
            for record in records:
                print_json({**begin, **record, **end})
        else:
            for text in [""] if result is None else component.lines(result):
                print_line(source.title(line) + text)
        if result is not None:
            sums.update(component.figures(result))
            if remark := component.remark(result):
                note(f"line {line.number}: {remark}")
    return component.total(sums)


def run_component(
    source: LineSource,
    component: "AnyComponent",
    out: Path | None,
    command: Command | None = None,
    *,
    as_json: bool,
) -> None:
    """Print the results of a file, or write them to ``out``; then what holds of all of them."""
    with output_to(out, command) as progress:
        total = print_results(source, component, progress, as_json=as_json)
    if total:
        note(total)
    progress.report()


def parser_of(component: "AnyComponent", max_length: int | None) -> Parse:
    """From lines to the inputs of a component; an empty line has none, if it reads no such."""
    limits = max_length, component.own_limit
    parse = with_max_length(component.parse, component.token_count, *limits)
    return parse if component.reads_empty else unless_empty(parse)


def read_windows(
    source: LineSource, progress: OutputProgress | None = None
) -> Iterator[list[Line]]:
    """The lines of a file, parsed, as they arrive; those of which there are results are left out.

    Standard output is flushed before more input is waited for. An invalid line raises its error
    after all lines before it have been yielded, wherever windows end. ``progress`` is told when the
    next window is asked for, so that results of the last one have been written, unless an error has
    cut it: where a run goes on, windows are whole.
    """
    progress, arrivals = progress or OutputProgress(), Arrivals()
    lines = source.lines(arrivals)
    progress.skip(source.key(source.readable(raw)) for raw in islice(lines, progress.inputs))
    coming = source.read(lines, progress.inputs + 1, arrivals)
    error, window = None, list[Line]()
    while error is None:
        sys.stdout.flush()
        written, window = [source.key(line.text) for line in window], []
        try:
            for line in _until_pause(coming, arrivals, source.window):
                if line.error is not None and not source.skip_bad:
                    raise BadInput(line.error)
                window.append(line)  # one by one: those before an error are kept
        except BadInput as bad:
            error = bad
        progress.add(written)
        if not window:
            break
        yield window
    if error is not None:
        raise error


def _until_pause(lines: Iterator[Line], arrivals: Arrivals, most: int) -> Iterator[Line]:
    """The next line, and those that follow it without a pause, as far as memory allows."""
    begun, characters = monotonic(), 0
    for number in range(most):
        patient = monotonic() - begun < PATIENCE
        if number and not arrivals.ready(PAUSE if patient else 0):
            return
        for line in islice(lines, 1):
            characters += len(line.text)
            yield line
        if characters > CHARACTERS:
            return


def with_max_length(
    parse: Parse, count: TokenCount, given: int | None, limit: int | None = None
) -> Parse:
    """A parser for which an input of more tokens than ``given`` is an error.

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
    """A parser for which an input is an error that the model would cut to ``limit`` tokens."""
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


def check_argument(text: str, second: str | None = None) -> None:
    """Refuse a text of the command line that is empty or not UTF-8."""
    if not text.strip():
        raise BadInput("there is no text")
    if any("\ud800" <= character <= "\udfff" for character in text + (second or "")):
        raise BadInput("the text is not UTF-8")


def plain_text(line: str, where: str) -> str:
    """The line is one text."""
    return line
