"""Input lines of a verb: parsed, checked and predicted in the order in which they arrive.

Lines are processed in windows. A window ends where a pipe or a terminal pauses, so that whoever
writes a line and waits gets its result, while fast input still fills batches.
"""

import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, starmap
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from regard.cli.io.console import json_line, note
from regard.cli.io.output import Command, OutputProgress, output_to
from regard.cli.io.statistics import TOKENS, describe_speed, describe_statistics, statistics_of
from regard.cli.options import MAX_TOKENS
from regard.data.readers.sources import NumberedLines
from regard.data.readers.text_files import Arrivals, coded_lines, decoded, name_of
from regard.ground.errors import BadInput

if TYPE_CHECKING:
    from regard.api import Model
    from regard.ground.errors import BadItem
    from regard.ground.workers import Job
    from regard.inference.component import AnyResult, BlockWorkers
    from regard.tasks.components import AnyComponent
    from regard.text.vocabulary import Vocabulary

PAUSE = 0.02  # seconds without a line that end a window
PATIENCE = 0.2  # seconds after which a window takes only lines that have arrived
WINDOW = 4_096  # lines
BLOCK = 1_024  # lines of a window that is the job of a worker
CHARACTERS = 1 << 26  # of a window; the line that exceeds them is its last
RAISE_LIMIT = "split the line into sentences, or raise --max-length"

Given = TypeVar("Given")
Value = TypeVar("Value")

Parse = Callable[[str, str], object]
"""From a line and its place ("file:number") to the input of a model."""

TokenCount = Callable[[Any, int], int]
"""From an input and a limit to its tokens, special ones counted, exact beyond the limit."""


class Line(NamedTuple):
    """A line with its number, and its input or its result; None if the line is empty or bad.

    ``error`` is the message of a bad line.
    """

    number: int
    text: str
    value: Any = None
    error: str | None = None


class RowResult(NamedTuple):
    """Result columns of the row with this number, from 0, of a table that is written at the end."""

    file: str
    row: int
    cells: Mapping[str, object]


class LineWindow(NamedTuple):
    """Lines that are processed at once; ``error``: the line after them is bad, and ends the run."""

    lines: list[Line]
    error: BadInput | None = None


@dataclass(frozen=True)
class LineSource:
    """A file with an input on each line; at most ``window`` are processed at once.

    With ``skip_bad``, a bad line has an error in place of a result; otherwise it ends the run.
    """

    file: str
    parse: Parse
    window: int = WINDOW
    skip_bad: bool = False
    encoding: str = field(default="utf-8", kw_only=True)
    is_one_of_several: bool = field(default=False, kw_only=True)  # files: records name it
    columns: tuple[str, ...] = field(default=(), kw_only=True)  # of a table, that are read
    results: list[RowResult] = field(
        default_factory=list, kw_only=True
    )  # that are printed at the end

    @property
    def name(self) -> str:
        """Name of the file in messages."""
        return name_of(self.file)

    def place(self, number: int) -> str:
        """The place of a line in messages: file and number."""
        return f"{self.name}:{number}"

    @property
    def schema(self) -> str:
        """A text that is equal for files whose results can be in one file."""
        return ""

    def with_parse(self, change: Callable[[Parse], Parse]) -> "LineSource":
        """Copy whose parser is changed."""
        return replace(self, parse=change(self.parse))

    def lines(self, arrivals: Arrivals) -> Iterator[bytes]:
        """All lines in UTF-8, as they arrive."""
        return coded_lines(self.file, self.encoding, arrivals)

    def decoded(self, raw: bytes, where: str) -> str:
        """The text of a line."""
        return decoded(raw, where)

    def readable(self, raw: bytes) -> str:
        """The text of a line, with replacements for bytes that are not UTF-8."""
        return raw.decode("utf-8", "replace")

    def key(self, text: str) -> str:
        """The part of a line that must be unchanged when a run is resumed."""
        return text

    def title(self, line: Line) -> str:
        """Text printed before the result of a line."""
        return ""

    def record(self, line: Line) -> dict[str, object]:
        """The first keys of the JSON record of a line."""
        file = {"file": self.name} if self.is_one_of_several else {}
        return {**file, "line": line.number}

    def numbered(self, arrivals: Arrivals) -> NumberedLines:
        """All lines with their numbers in the file."""
        return enumerate(self.lines(arrivals), start=1)

    def read(self, lines: NumberedLines, arrivals: Arrivals) -> Iterator[Line]:
        """Parsed lines."""
        return (self.parsed(number, raw) for number, raw in lines)

    @property
    def has_columns(self) -> bool:
        """Whether the inputs are rows of a table, which are printed again."""
        return False

    @property
    def has_workers(self) -> bool:
        """Whether a chosen number of processes prepares the inputs."""
        return False

    @property
    def streams(self) -> bool:
        """Whether results are printed as they come, so that a stopped run can continue."""
        return True

    def head(self, component: "AnyComponent", *, as_json: bool) -> str:
        """Text printed before all results."""
        return ""

    def printed(
        self, line: Line, component: "AnyComponent", *, as_json: bool, envelope: Mapping[str, str]
    ) -> Iterator[str]:
        """The results of a line as printed: lines of text, or JSON with the ``envelope``."""
        result = line.value
        if as_json:
            records = [component.empty_record] if result is None else component.records(result)
            begin = self.record(line) if component.is_numbered else {}
            end = {**remarks_of(line, component), **envelope}
            yield from (json_line({**begin, **record, **end}) for record in records)
        else:
            for text in [""] if result is None else component.lines(result):
                yield f"{self.title(line)}{text}\n"

    def finish(self, *, as_json: bool, more: Sequence["LineSource"] = ()) -> None:
        """Print what follows all results, those of ``more`` files included."""

    def parsed(self, number: int, raw: bytes) -> Line:
        """A line with its input, or its error."""
        where = self.place(number)
        try:
            text = self.decoded(raw, where)
            return Line(number, text, self.parse(text, where))
        except BadInput as error:
            return Line(number, self.readable(raw), None, str(error))


def remarks_of(line: Line, component: "AnyComponent") -> dict[str, object]:
    """Keys of JSON records that say whether the input was truncated, or bad."""
    cut = {"cut": line.value and line.value.cut} if component.reports_cuts else {}
    return {**cut, **error_of(line)}


def error_of(line: Line) -> dict[str, object]:
    """The key "error" of the JSON record of a bad line."""
    return {} if line.error is None else {"error": line.error}


def unless_empty(parse: Parse) -> Parse:
    """A parser that returns None for an empty line, which then has no result."""
    return lambda line, where: parse(line, where) if line.strip() else None


def result_lines(
    source: LineSource,
    component: "AnyComponent",
    progress: OutputProgress,
    workers: "BlockWorkers | None" = None,
) -> Iterator[Line]:
    """Every line with its result, window by window; None for a line that is empty or bad.

    A bad line is counted and printed; without ``skip_bad`` it raises its error, after the results
    of all lines before it. A window is added to ``progress`` when its results have been used; one
    that an error has shortened is not, so that a resumed run begins with a whole window.
    """

    def job_of(window: LineWindow) -> "Job":
        inputs = [line for line in window.lines if line.value is not None]
        keys = [line.number - 1 for line in inputs]
        return [line.value for line in inputs], keys, source.skip_bad

    for window, results in solved_windows(source, component, progress, workers, job_of):
        for line in window.lines:
            if line.value is not None:
                result = next(results)
                if isinstance(result, BadInput):
                    error = f"{source.place(line.number)}: {result.reason}"
                    if not source.skip_bad:
                        raise BadInput(error)
                    line = line._replace(value=None, error=error)
                else:
                    progress.sums.update(component.figures(result))
                    if not component.is_blank(line.value):
                        progress.sums.update(statistics_of(component, result))
                    line = line._replace(value=result)
            if line.error is not None:
                progress.add_bad(line.error)
            yield line
        if window.error is not None:
            raise window.error
        progress.add([source.key(line.text) for line in window.lines])


def identify_blocks(command: Command | None, workers: "BlockWorkers | None") -> Command | None:
    """The command that a run continues: windows, which decide rounding, are smaller for workers."""
    blocks = {"blocks": None if workers is None else BLOCK}
    return command and replace(command, values={**command.values, **blocks})


def solved_windows(
    source: LineSource,
    component: "AnyComponent",
    progress: OutputProgress,
    workers: "BlockWorkers | None",
    job_of: Callable[[LineWindow], "Job"],
) -> Iterator[tuple[LineWindow, Iterator["AnyResult | BadItem"]]]:
    """Windows, in order, with the results of their jobs: the arguments of ``run_block``.

    With ``workers``, windows are smaller, and some are read before results are used.
    """
    arrivals, coming = Arrivals(), deque[LineWindow]()
    if workers is not None:
        source = replace(source, window=min(source.window, BLOCK))

    def jobs() -> Iterator["Job"]:
        for window in _windows(source, progress, arrivals):
            coming.append(window)
            yield job_of(window)

    results: Iterator[list[AnyResult | BadItem]] = starmap(component.run_block, jobs())
    if workers is not None:
        results = workers.map(jobs(), lambda: arrivals.ready(0))
    for of_window in results:
        yield coming.popleft(), iter(of_window)


def run_component(
    source: LineSource,
    component: "AnyComponent",
    out: Path | None,
    command: Command | None = None,
    workers: "BlockWorkers | None" = None,
    on_value: Callable[[Any], object] = lambda value: None,
    /,
    *,
    as_json: bool,
    **envelope: str,
) -> OutputProgress:
    """Print the results of a file as lines or as JSON, or write them to ``out``.

    Returns the counts and sums of all results. ``on_value`` gets the value of each. JSON records
    end with the ``envelope``. Remarks and the sums of figures go to standard error; with
    ``workers``, or if the source has some, statistics of the results too.
    """
    if command is not None and not (source.streams or as_json):
        raise BadInput(f"--resume: {source.name} is written at once; leave it out, or add --json")
    with output_to(out, identify_blocks(command, workers)) as progress:
        if not progress.inputs:
            sys.stdout.write(source.head(component, as_json=as_json))
        for line in result_lines(source, component, progress, workers):
            sys.stdout.writelines(
                source.printed(line, component, as_json=as_json, envelope=envelope)
            )
            if (result := line.value) is not None:
                on_value(result.value)
                if remark := component.remark(result):
                    note(f"line {line.number}: {remark}")
        source.finish(as_json=as_json)
    if total := component.total(progress.sums):
        note(total)
    note_statistics(progress, source, workers)
    progress.report()
    return progress


def note_statistics(
    progress: OutputProgress, source: LineSource, workers: "BlockWorkers | None"
) -> None:
    """Print the statistics of all results that workers shared, and the speed, to standard error."""
    if workers is None and not source.has_workers:
        return
    note(describe_statistics(progress.sums, progress.inputs, progress.bad))
    inputs, tokens = progress.inputs - progress.earlier_inputs, progress.sums - progress.earlier
    note(describe_speed(inputs, tokens[TOKENS], monotonic() - progress.begun))


def parser_of(component: "AnyComponent", max_length: int | None) -> Parse:
    """Parser of lines for a component, with a maximum length.

    Components that do not read empty lines get None for them.
    """
    parse = with_limit(component.parse, component.token_count, token_limit(component, max_length))
    return parse if component.reads_empty else unless_empty(parse)


def token_limit(component: "AnyComponent", max_length: int | None) -> int | None:
    """The most tokens of an input; None: no limit, because the component has its own."""
    return max_length or (MAX_TOKENS if component.own_limit is None else None)


def read_windows(source: LineSource) -> Iterator[list[Line]]:
    """The lines of a file, parsed, in windows, as they arrive.

    Standard output is flushed before more input is waited for. An invalid line raises its error
    after all lines before it have been yielded.
    """
    for window in _windows(source, OutputProgress(), Arrivals()):
        if window.lines:
            yield window.lines
        if window.error is not None:
            raise window.error


def _windows(
    source: LineSource, progress: OutputProgress, arrivals: Arrivals
) -> Iterator[LineWindow]:
    """All windows, as they arrive, without the lines that have results by ``progress``."""
    lines = iter(source.numbered(arrivals))
    progress.skip(source.key(source.readable(raw)) for _, raw in islice(lines, progress.inputs))
    coming = source.read(lines, arrivals)
    while True:
        sys.stdout.flush()
        error, window = None, list[Line]()
        try:
            for line in _until_pause(coming, arrivals, source.window):
                if line.error is not None and not source.skip_bad:
                    raise BadInput(line.error)
                window.append(line)  # in a loop: lines before an error are yielded
        except BadInput as bad:
            error = bad
        if window or error is not None:
            yield LineWindow(window, error)
        if error is not None or not window:
            return


def _until_pause(lines: Iterator[Line], arrivals: Arrivals, most: int) -> Iterator[Line]:
    """The next line, and the lines that follow it without a pause, at most ``CHARACTERS``."""
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


def with_limit(
    parse: Callable[[Given, str], Value],
    count: TokenCount,
    most: int | None,
    remedy: str = RAISE_LIMIT,
) -> Callable[[Given, str], Value]:
    """A parser that refuses inputs of more than ``most`` tokens; None: no limit."""
    if most is None:
        return parse

    def parse_short(given: Given, where: str) -> Value:
        value = parse(given, where)
        _check_count(count(value, most), most, where, remedy)
        return value

    return parse_short


def check_length(
    texts: Sequence[str], vocabulary: "Vocabulary", most: int, where: str, special: int = 1
) -> None:
    """Refuse texts that make a row of more than ``most`` tokens, ``special`` ones counted."""
    from regard.text.vocabulary import token_count

    _check_count(token_count(texts, vocabulary, special, most), most, where, RAISE_LIMIT)


def _check_count(count: int, most: int, where: str, remedy: str) -> None:
    if count > most:
        raise BadInput(f"{where}: {count:,} tokens, more than {most:,}; {remedy}")


def check_argument(text: str, second: str | None = None) -> None:
    """Refuse a text of the command line that is empty or not UTF-8."""
    if not text.strip():
        raise BadInput("the text is empty; write it in quotes")
    if any("\ud800" <= character <= "\udfff" for character in text + (second or "")):
        raise BadInput("the text is not UTF-8")


def refuse_images(model: "Model", name: str) -> None:
    """Refuse a model of images of this name, for a verb that compares texts."""
    from regard.ground.reading import NO_TEXT  # here: it imports torch

    if model.facts.encoder.embed.reads_images:
        raise BadInput(f"{name}: {NO_TEXT}; use regard embed for images")


def plain_text(line: str, where: str) -> str:
    """The line itself, as one text."""
    return line
