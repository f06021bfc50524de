"""Running text: each line is a paragraph, whose sentences are inputs and whose results are joined.

Paragraphs and empty lines stay as they are.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from regard.cli.io.console import note, print_json, print_line
from regard.cli.io.line_io import Line, LineSource, Parse, read_windows
from regard.cli.io.output import output_to
from regard.data.readers.sentences import sentences
from regard.ground.errors import BadInput

if TYPE_CHECKING:
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
    *,
    as_json: bool,
    **envelope: str,
) -> None:
    """Print the best result of each sentence, one line for a paragraph, or as JSON.

    Results go to ``out``, if it is given. Sentences are numbered over the whole text, which decides
    what is sampled.
    """
    sums, number = Counter[str](), 0
    with output_to(out) as progress:
        for window in read_windows(source, progress):
            count = sum(len(line.value) for line in window)
            results = _results(source, component, window, range(number, number + count))
            number += count
            for line in window:
                translated = [next(results) for _ in line.value]
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
                    sums.update(component.figures(result))
                    if remark := component.remark(result):
                        note(f"line {line.number}: {remark}")
    if total := component.total(sums):
        note(total)


def _results(
    source: LineSource, component: "AnyComponent", window: Sequence[Line], keys: range
) -> Iterator[Any]:
    """Results of all sentences of a window; the first bad one raises its error."""
    lines = [line for line in window for _ in line.value]
    values = [sentence.value for line in window for sentence in line.value]
    rows = component.prepare(values, [*keys])
    bad = [number for number, row in enumerate(rows) if isinstance(row, BadInput)]
    results = component.results(rows[: bad[0] + 1] if bad else rows)
    for line, result in zip(lines, results, strict=False):
        if isinstance(result, BadInput):
            raise BadInput(f"{source.name}:{line.number}: {result.reason}")
        yield result
