"""Files of translations against references: scores, comparisons, and the tables behind BLEU."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.text import Text
from sacrebleu.metrics import CHRF, TER
from sacrebleu.metrics.base import Metric

from regard.core.errors import BadInput
from regard.data.readers.text_files import STDIN, name_of, read_lines
from regard.experiments.options.measuring import BleuOptions
from regard.experiments.result import (
    Cell,
    ExperimentResult,
    OutputTable,
    lines_of,
    number_column,
    score_table,
    text_column,
)
from regard.metrics.intervals import LEAST_EXAMPLES
from regard.metrics.translation import (
    Comparison,
    Explanation,
    MetricScore,
    NgramOrder,
    bleu_metric,
    check_parallel,
    compare,
    explain,
    measured,
)

ROWS = 20
COUNTS = ("count", "in_references", "clipped", "unclipped")  # of an n-gram
LENGTHS = ("hypothesis_length", "reference_lengths", "closest_length")
STEPS = ("weight", "smoothing", *LENGTHS, "brevity_penalty", "bleu")


def _metrics(options: BleuOptions) -> list[Metric]:
    """The metrics of sacreBLEU."""
    metrics: list[Metric] = [bleu_metric(options.tokenize, options.lowercase)]
    if options.with_chrf:
        metrics.append(CHRF(lowercase=options.lowercase))
    if options.with_ter:
        metrics.append(TER())
    return metrics


@dataclass(frozen=True)
class TextScores(ExperimentResult):
    """Scores of a file of translations, perhaps with the tables behind BLEU."""

    scores: Sequence[MetricScore]
    explanation: Explanation | None = None

    def tables(self) -> list[OutputTable]:
        orders = [] if self.explanation is None else self.explanation.orders
        return [score_table({"": self.scores}), *map(_ngram_table, orders)]

    def records(self) -> list[dict[str, object]]:
        record: dict[str, object] = {"scores": [*map(_score_record, self.scores)]}
        if tables := self.explanation:
            orders = list(map(_order_record, tables.orders, tables.precisions))
            steps = {key: getattr(tables, key) for key in STEPS}
            record["explanation"] = {"orders": orders, **steps}
        return [record]

    def text(self, width: int | None = None) -> Iterator[Text | str]:
        yield from map(str, self.scores)
        if self.explanation is not None:
            yield from _explanation_lines(self.explanation, width)


@dataclass(frozen=True)
class SystemScores(ExperimentResult):
    """Scores of several systems; the first is the ``baseline`` of all others."""

    baseline: str
    scores: Sequence[MetricScore]
    others: Sequence[tuple[str, Sequence[Comparison]]]

    def tables(self) -> list[OutputTable]:
        """Scores of all systems; the baseline has neither difference nor p-value."""
        systems = {self.baseline: self.scores}
        systems |= {name: [it.system for it in own] for name, own in self.others}
        tests: list[tuple[Cell, Cell]] = [(None, None)] * len(self.scores)
        tests += [(it.difference, it.p_value) for _, own in self.others for it in own]
        table = score_table(systems, "system")
        columns = [*table.columns, number_column("difference", "+.2f")]
        rows = [[*row, *test] for row, test in zip(table.rows, tests, strict=True)]
        return [OutputTable([*columns, number_column("p", ".4f", missing="–")], rows)]

    def records(self) -> list[dict[str, object]]:
        first = {"system": self.baseline, "scores": [*map(_score_record, self.scores)]}
        rest = [
            {"system": name, "scores": [*map(_comparison_record, own)]} for name, own in self.others
        ]
        return [{"systems": [first, *rest]}]

    def text(self, width: int | None = None) -> Iterator[str]:
        for score in self.scores:
            yield f"{self.baseline}: {score}"
        for name, comparisons in self.others:
            for change in comparisons:
                test = f"no p-value below {LEAST_EXAMPLES} segments"
                if change.p_value is not None:
                    test = f"p = {change.p_value:.4f}"
                yield f"{name}: {change.system}  {change.difference:+.2f}, {test}"


def score_texts(hypotheses: str, references: Sequence[str], options: BleuOptions) -> TextScores:
    """Score a file of translations against files of references."""
    (lines,), streams = _read([hypotheses], references)
    scores = [measured(each, lines, streams, options.with_interval) for each in _metrics(options)]
    tables = None
    if options.with_tables:
        tables = explain(lines, streams, tokenize=options.tokenize, lowercase=options.lowercase)
    return TextScores(scores, tables)


def compare_systems(
    systems: Sequence[str], references: Sequence[str], options: BleuOptions
) -> SystemScores:
    """Score the files of several systems, and test their differences from the first."""
    options.refuse("with_tables", reason="cannot be used with --refs, which compares systems")
    (baseline, *outputs), streams = _read(systems, references)
    first, *rest = map(name_of, systems)
    metrics = _metrics(options)
    compared = [
        (name, [compare(metric, baseline, lines, streams) for metric in metrics])
        for name, lines in zip(rest, outputs, strict=True)
    ]
    return SystemScores(first, [each.baseline for each in compared[0][1]], compared)


def _read(
    systems: Sequence[str], references: Sequence[str]
) -> tuple[list[list[str]], list[list[str]]]:
    paths = [*systems, *references]
    if paths.count(STDIN) > 1:
        raise BadInput("-: standard input can only be read once; name files instead")
    texts = [list(read_lines(path)) for path in paths]
    outputs, streams = texts[: len(systems)], texts[len(systems) :]
    for system, lines in zip(systems, outputs, strict=True):
        check_parallel(lines, streams, names=[name_of(path) for path in (system, *references)])
    return outputs, streams


def _score_record(score: MetricScore) -> dict[str, object]:
    record = {"name": score.name, "value": score.value, "signature": score.signature}
    return record | ({"interval": score.interval} if score.interval else {})


def _comparison_record(comparison: Comparison) -> dict[str, object]:
    figures = {"difference": comparison.difference, "p_value": comparison.p_value}
    return _score_record(comparison.system) | figures


def _order_record(order: NgramOrder, precision: float) -> dict[str, object]:
    ngrams = [
        {"ngram": " ".join(ngram.tokens), **{name: getattr(ngram, name) for name in COUNTS}}
        for ngram in order.ngrams
    ]
    sums = {"total": order.total, "clipped": order.clipped, "unclipped": order.unclipped}
    return {"n": order.n, **sums, "precision": precision, "ngrams": ngrams}


def _ngram_table(order: NgramOrder, most: int | None = None) -> OutputTable:
    """Counts of the most frequent n-grams, or of all."""
    columns = [text_column("n-gram"), *(number_column(name.replace("_", " ")) for name in COUNTS)]
    rows = [
        [" ".join(ngram.tokens), *(getattr(ngram, name) for name in COUNTS)]
        for ngram in order.ngrams[:most]
    ]
    return OutputTable(columns, rows)


def _explanation_lines(tables: Explanation, width: int | None) -> Iterator[Text | str]:
    for order in tables.orders:
        clipped, unclipped = f"{order.clipped}/{order.total}", f"{order.unclipped}/{order.total}"
        yield ""
        yield f"{order.n}-grams: {clipped} clipped, {unclipped} unclipped"
        yield from lines_of([_ngram_table(order, ROWS)], "text", width)
        if len(order.ngrams) > ROWS:
            yield f"... and {len(order.ngrams) - ROWS} more, rarer ones (all with --json)"
    yield ""
    unmatched = [str(order.n) for order in tables.orders if order.total and not order.clipped]
    if unmatched and tables.orders[0].clipped:
        orders = ", ".join(unmatched)
        yield f"smoothing {tables.smoothing}: nothing matched at order {orders}"
    lengths = ", ".join(map(str, tables.reference_lengths))
    closest = f"closest reference {tables.closest_length} (references {lengths})"
    penalty = f"{tables.brevity_penalty:.4f}"
    yield f"brevity penalty {penalty}: {tables.hypothesis_length} tokens, {closest}"
    product = " · ".join(f"{precision:.4f}" for precision in tables.precisions)
    power = f"1/{len(tables.orders)}"
    yield f"BLEU = 100 · {penalty} · ({product})^({power}) = {tables.bleu:.2f}"
