"""Running text: each line is a paragraph, whose sentences are inputs and whose results are joined.

Paragraphs and empty lines stay as they are.
"""

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from regard.cli.io.console import note, print_json, print_line
from regard.cli.io.line_io import LineSource, LineWindow, Parse, solved_windows
from regard.cli.io.output import output_to
from regard.data.readers.sentences import sentences
from regard.ground.errors import BadInput

if TYPE_CHECKING:
    from regard.ground.workers import Job
    from regard.inference.component import AnyResult, BlockWorkers
    from regard.tasks.components import AnyComponent


class ParsedSentence(NamedTuple):
    """A sentence and the input of a model that it is."""

    text: str
    value: Any


def paragraph_parser(parse: Parse) -> Parse:
    """A parser that splits a line into sentences and parses each of them."""

    def parse_paragraph(line: str, where: str) -> tuple[ParsedSentence, ...]:
        return tuple(ParsedSentence(text, parse(text, where)) for text in sentences(line))

    return parse_paragraph


def run_document(
    source: LineSource,
    component: "AnyComponent",
    out: Path | None,
    workers: "BlockWorkers | None" = None,
    /,
    *,
    as_json: bool,
    **envelope: str,
) -> None:
    """Print the best result of each sentence, one line for a paragraph, or as JSON.

    Results go to ``out``, if it is given. Sentences are numbered over the whole text, which decides
    what is sampled.
    """
    number = 0

    def job_of(window: LineWindow) -> "Job":
        nonlocal number
        values = [sentence.value for line in window.lines for sentence in line.value]
        keys = range(number, number := number + len(values))
        return values, [*keys], False

    with output_to(out) as progress:
        for window, results in solved_windows(source, component, progress, workers, job_of):
            for line in window.lines:
                translated = list["AnyResult"]()
                for result in islice(results, len(line.value)):
                    if isinstance(result, BadInput):
                        raise BadInput(f"{source.name}:{line.number}: {result.reason}")
                    translated.append(result)
                texts = [component.lines(result)[0] for result in translated]
                if as_json:
                    records = [
                        {"source": sentence.text, **component.records(result)[0]}
                        for sentence, result in zip(line.value, translated, strict=True)
                    ]
                    paragraph = {**source.record(line), "text": " ".join(texts)}
                    print_json({**paragraph, "sentences": records, **envelope})
                else:
                    print_line(" ".join(texts))
                for result in translated:
                    progress.sums.update(component.figures(result))
                    if remark := component.remark(result):
                        note(f"line {line.number}: {remark}")
            if window.error is not None:
                raise window.error
    if total := component.total(progress.sums):
        note(total)
