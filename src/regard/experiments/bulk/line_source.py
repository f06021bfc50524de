"""Input lines of a component: parsed, checked and predicted in the order in which they arrive.

Lines are processed in windows. A window ends where a pipe or a terminal pauses, so that whoever
writes a line and waits gets its result, while fast input still fills batches.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from regard.core.errors import ArgumentName, BadInput, Parts, Word
from regard.core.files import json_line
from regard.data.readers.sources import NumberedLines
from regard.data.readers.table_format import TableFormat
from regard.data.readers.text_files import Arrivals, coded_lines, decoded, name_of
from regard.data.table_columns import InputColumns
from regard.experiments.bulk.result_file import OutputProgress
from regard.experiments.notes import Listener, ignore

if TYPE_CHECKING:
    from regard.tasks.components import AnyComponent
    from regard.text.vocabulary import Vocabulary

PAUSE = 0.02  # seconds without a line that end a window
PATIENCE = 0.2  # seconds after which a window takes only lines that have arrived
WINDOW = 4_096  # lines
CHARACTERS = 1 << 26  # of a window; the line that exceeds them is its last
MAX_TOKENS = 1_024  # of a text, where no limit is given and the model has none of its own
RAISE_LIMIT = ("split the line into sentences, or raise ", ArgumentName("max_length"))

UNDECLARED, UNKNOWN = TableFormat(), InputColumns()

Item = TypeVar("Item")
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
class InputSettings:
    """How the inputs of a component are read from files.

    Texts are in ``columns`` of a table, whose ``form`` is declared as far as it is not found; by
    default in those that the model was ``trained`` on. Inputs have at most ``max_length`` tokens.
    With ``skip_bad``, a bad one has an error in place of a result. ``argument`` writes the names of
    arguments in errors.
    """

    columns: Sequence[str] | None = None
    max_length: int | None = None
    form: TableFormat = UNDECLARED
    trained: InputColumns = UNKNOWN
    skip_bad: bool = False
    argument: Word = str
    on_event: Listener = ignore

    @property
    def of_lines(self) -> dict[str, Any]:
        """Arguments of each source of lines."""
        encoding = self.form.encoding or "utf-8"
        return {"skip_bad": self.skip_bad, "encoding": encoding, "argument": self.argument}


@dataclass(frozen=True)
class ResultForm:
    """Results as lines, or as JSON records that end with ``envelope``."""

    as_json: bool = False
    envelope: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class LineSource:
    """A file with an input on each line; at most ``window`` are processed at once.

    With ``skip_bad``, a bad line has an error in place of a result; otherwise it ends the run.
    ``argument`` writes the names of arguments in these errors.
    """

    file: str
    parse: Parse
    window: int = WINDOW
    skip_bad: bool = False
    encoding: str = field(default="utf-8", kw_only=True)
    argument: Word = field(default=str, kw_only=True)
    is_one_of_several: bool = field(default=False, kw_only=True)  # files: records name it
    columns: tuple[str, ...] = field(default=(), kw_only=True)  # of a table, that are read
    results: list[RowResult] = field(
        default_factory=list, kw_only=True
    )  # that are printed at the end

    @property
    def name(self) -> str:
        """Name of the file in messages."""
        return name_of(self.file)

    def where(self, number: int) -> str:
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

    def head(self, component: "AnyComponent", form: ResultForm) -> str:
        """Text printed before all results."""
        return ""

    def printed(self, line: Line, component: "AnyComponent", form: ResultForm) -> Iterator[str]:
        """The results of a line as printed: lines of text, or JSON with the ``envelope``."""
        result = line.value
        if form.as_json:
            records = [component.empty_record] if result is None else component.records(result)
            begin = self.record(line) if component.is_numbered else {}
            end = {**remarks_of(line, component), **form.envelope}
            yield from (json_line({**begin, **record, **end}) for record in records)
        else:
            for text in [""] if result is None else component.lines(result):
                yield f"{self.title(line)}{text}\n"

    def finish(self, form: ResultForm, more: Sequence["LineSource"] = ()) -> bytes:
        """What follows all results, those of ``more`` files included."""
        return b""

    def parsed(self, number: int, raw: bytes) -> Line:
        """A line with its input, or its error."""
        where = self.where(number)
        try:
            text = self.decoded(raw, where)
            return Line(number, text, self.parse(text, where))
        except BadInput as error:
            return Line(number, self.readable(raw), None, error.text(argument=self.argument))


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


def parser_of(component: "AnyComponent", max_length: int | None) -> Parse:
    """Parser of lines for a component, with a maximum length.

    Components that do not read empty lines get None for them.
    """
    parse = with_limit(component.parse, component.token_count, token_limit(component, max_length))
    return parse if component.reads_empty else unless_empty(parse)


def token_limit(component: "AnyComponent", max_length: int | None) -> int | None:
    """The most tokens of an input; None: no limit, because the component has its own."""
    return max_length or (MAX_TOKENS if component.own_limit is None else None)


def read_windows(
    source: LineSource, flush: Callable[[], object] = lambda: None
) -> Iterator[list[Line]]:
    """The lines of a file, parsed, in windows, as they arrive.

    Results are flushed before more input is waited for. An invalid line raises its error after all
    lines before it have been yielded.
    """
    for window in windows(source, Arrivals(), flush):
        if window.lines:
            yield window.lines
        if window.error is not None:
            raise window.error


def windows(
    source: LineSource,
    arrivals: Arrivals,
    flush: Callable[[], object],
    progress: OutputProgress | None = None,
) -> Iterator[LineWindow]:
    """All windows, as they arrive, without the lines that have results by ``progress``."""
    lines = iter(source.numbered(arrivals))
    if progress is not None:
        progress.skip(source.key(source.readable(raw)) for _, raw in islice(lines, progress.inputs))
    coming = source.read(lines, arrivals)
    while True:
        flush()
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
    parse: Callable[[Item, str], Value],
    count: TokenCount,
    most: int | None,
    remedy: str | Parts = RAISE_LIMIT,
) -> Callable[[Item, str], Value]:
    """A parser that refuses inputs of more than ``most`` tokens; None: no limit."""
    if most is None:
        return parse

    def parse_short(item: Item, where: str) -> Value:
        value = parse(item, where)
        _check_count(count(value, most), most, where, remedy)
        return value

    return parse_short


def check_length(
    texts: Sequence[str], vocabulary: "Vocabulary", most: int, where: str, special: int = 1
) -> None:
    """Refuse texts that make a row of more than ``most`` tokens, ``special`` ones counted."""
    from regard.text.vocabulary import token_count

    _check_count(token_count(texts, vocabulary, special, most), most, where, RAISE_LIMIT)


def _check_count(count: int, most: int, where: str, remedy: str | Parts) -> None:
    if count > most:
        raise BadInput(f"{where}: {count:,} tokens, more than {most:,}", remedy=remedy)


def plain_text(line: str, where: str) -> str:
    """The line itself, as one text."""
    return line
