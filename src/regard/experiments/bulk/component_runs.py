"""Runs of a component over a file: its results as lines, JSON, rows of a table or vectors.

Running text is a run of its own: each line is a paragraph, whose sentences are inputs and whose
results are joined; paragraphs and empty lines stay as they are.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from itertools import islice, starmap
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from regard.core.errors import ArgumentName, BadArgument, BadInput
from regard.core.files import json_line
from regard.data.readers.sentences import sentences
from regard.data.readers.text_files import Arrivals
from regard.experiments.bulk.line_source import (
    Line,
    LineSource,
    LineWindow,
    Parse,
    ResultForm,
    error_of,
    windows,
)
from regard.experiments.bulk.result_file import (
    TOKENS,
    Command,
    OutputProgress,
    describe_speed,
    describe_statistics,
    open_output,
    statistics_of,
)
from regard.experiments.notes import Listener, Note, ignore

if TYPE_CHECKING:
    from regard.core.errors import BadItem
    from regard.core.workers import Job
    from regard.inference.component import AnyResult, BlockWorkers
    from regard.inference.embed import Embedder
    from regard.tasks.components import AnyComponent

BLOCK = 1_024  # lines of a window that is the job of a worker
SUFFIXES = {".npy": "", ".txt": " ", ".tsv": "\t", ".jsonl": ""}  # of files: separators


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
                    error = f"{source.where(line.number)}: {result.reason}"
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
        for window in windows(source, arrivals, progress.stream.flush, progress):
            coming.append(window)
            yield job_of(window)

    results: Iterator[list[AnyResult | BadItem]] = starmap(component.run_block, jobs())
    if workers is not None:
        results = workers.map(jobs(), lambda: arrivals.ready(0))
    for of_window in results:
        yield coming.popleft(), iter(of_window)


@dataclass(frozen=True)
class ComponentRun:
    """A component over a file; ``on_value`` gets the value of each result."""

    source: LineSource
    component: "AnyComponent"
    form: ResultForm
    command: Command | None = None
    workers: "BlockWorkers | None" = None
    on_value: Callable[[Any], object] = lambda value: None

    def write(self, out: Path | BinaryIO, on_event: Listener = ignore) -> OutputProgress:
        """Write all results to a file or a stream; return their counts and sums.

        Remarks and the sums of figures are reported; with ``workers``, or if the source has some,
        statistics of the results too.
        """
        source, component, form = self.source, self.component, self.form
        if self.command is not None and not (source.streams or form.as_json):
            fault = f"{source.name} is written at once; leave it out, or add "
            raise BadArgument((fault, ArgumentName("json")), key="resume")
        command = identify_blocks(self.command, self.workers)
        with open_output(out, command, on_event) as progress:
            if not progress.inputs:
                progress.write(source.head(component, form))
            for line in result_lines(source, component, progress, self.workers):
                for text in source.printed(line, component, form):
                    progress.write(text)
                if (result := line.value) is not None:
                    self.on_value(result.value)
                    if remark := component.remark(result):
                        on_event(Note(f"line {line.number}: {remark}"))
            progress.stream.write(source.finish(form))
        if total := component.total(progress.sums):
            on_event(Note(total))
        report_statistics(progress, source, self.workers)
        progress.report()
        return progress


def report_statistics(
    progress: OutputProgress, source: LineSource, workers: "BlockWorkers | None"
) -> None:
    """Report the statistics of all results that workers shared, and the speed."""
    if workers is None and not source.has_workers:
        return
    inputs, tokens = progress.inputs - progress.earlier_inputs, progress.sums - progress.earlier
    for text in (
        describe_statistics(progress.sums, progress.inputs, progress.bad),
        describe_speed(inputs, tokens[TOKENS], monotonic() - progress.begun),
    ):
        progress.on_event(Note(text))


class ParsedSentence(NamedTuple):
    """A sentence and the input of a model that it is."""

    text: str
    value: Any


def paragraph_parser(parse: Parse) -> Parse:
    """A parser that splits a line into sentences and parses each of them."""

    def parse_paragraph(line: str, where: str) -> tuple[ParsedSentence, ...]:
        return tuple(ParsedSentence(text, parse(text, where)) for text in sentences(line))

    return parse_paragraph


@dataclass(frozen=True)
class DocumentRun:
    """A component over paragraphs: the best result of each sentence, joined, or as JSON.

    Sentences are numbered over the whole text, which decides what is sampled.
    """

    source: LineSource
    component: "AnyComponent"
    form: ResultForm
    workers: "BlockWorkers | None" = None

    def write(self, out: Path | BinaryIO, on_event: Listener = ignore) -> None:
        """Write a line for each paragraph to a file or a stream; remarks are reported."""
        source, component, number = self.source, self.component, 0

        def job_of(window: LineWindow) -> "Job":
            nonlocal number
            values = [sentence.value for line in window.lines for sentence in line.value]
            keys = range(number, number := number + len(values))
            return values, [*keys], False

        with open_output(out, None, on_event) as progress:
            windows = solved_windows(source, component, progress, self.workers, job_of)
            for window, results in windows:
                for line in window.lines:
                    translated = list["AnyResult"]()
                    for result in islice(results, len(line.value)):
                        if isinstance(result, BadInput):
                            raise BadInput(f"{source.name}:{line.number}: {result.reason}")
                        translated.append(result)
                    progress.write(self._printed(line, translated))
                    for result in translated:
                        progress.sums.update(component.figures(result))
                        if remark := component.remark(result):
                            on_event(Note(f"line {line.number}: {remark}"))
                if window.error is not None:
                    raise window.error
        if total := component.total(progress.sums):
            on_event(Note(total))

    def _printed(self, line: Line, results: "Sequence[AnyResult]") -> str:
        text = " ".join(self.component.lines(result)[0] for result in results)
        if not self.form.as_json:
            return text + "\n"
        records = [
            {"source": sentence.text, **self.component.records(result)[0]}
            for sentence, result in zip(line.value, results, strict=True)
        ]
        paragraph = {**self.source.record(line), "text": text, "sentences": records}
        return json_line({**paragraph, **self.form.envelope})


@dataclass(frozen=True)
class VectorRun:
    """An embedder over a file; vectors have the format of a ``suffix``."""

    source: LineSource
    component: "Embedder"
    form: ResultForm
    suffix: str
    command: Command | None = None
    workers: "BlockWorkers | None" = None

    def write(self, out: Path | BinaryIO, on_event: Listener = ignore) -> OutputProgress:
        """Write all vectors to a file or a stream; return the counts and sums of results."""
        source, component, workers = self.source, self.component, self.workers
        width, is_npy = component.width, self.suffix == ".npy"
        with open_output(out, identify_blocks(self.command, workers), on_event) as progress:
            stream = progress.stream
            if is_npy and not progress.inputs:
                stream.write(_header(0, width))
            for line in result_lines(source, component, progress, workers):
                stream.write(self._row(line))
            if is_npy:
                stream.seek(0)
                stream.write(_header(progress.inputs, width))
            progress.about = f": {progress.inputs:,} vectors of {width}"
        report_statistics(progress, source, workers)
        progress.report()
        return progress

    def _row(self, line: Line) -> bytes:
        """The vector of a line; a line without input has an empty row."""
        import numpy as np

        vector_D = None if line.value is None else line.value.value
        if self.suffix == ".npy":
            given_D = np.zeros(self.component.width) if vector_D is None else vector_D
            return given_D.astype("<f4").tobytes()
        if self.suffix == ".jsonl":
            vector = None if vector_D is None else vector_D.tolist()
            record = {**self.source.record(line), "vector": vector, **error_of(line)}
            return json_line({**record, **self.form.envelope}).encode()
        numbers = () if vector_D is None else vector_D
        return (SUFFIXES[self.suffix].join(f"{number:.8g}" for number in numbers) + "\n").encode()


def _header(rows: int, width: int) -> bytes:
    """Header of a NumPy file; its length does not depend on the number of rows."""
    import numpy as np

    head = BytesIO()
    shape = {"shape": (rows, width), "fortran_order": False}
    np.lib.format.write_array_header_1_0(head, {"descr": "<f4", **shape})
    return head.getvalue()
