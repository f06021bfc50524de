"""``regard bleu``: scores of translations, and the n-gram tables behind BLEU."""

from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from regard.cli import options
from regard.cli.io.console import print_json, print_line
from regard.cli.io.table_formats import (
    Cell,
    OutputTable,
    TableFormat,
    choose_format,
    number_column,
    print_tables,
    score_table,
    text_column,
)
from regard.data.readers.text_files import STDIN, name_of, read_lines
from regard.ground.errors import BadInput

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric

    from regard.metrics.bleu import Explanation, NgramOrder
    from regard.metrics.translation import Comparison, MetricScore

ROWS = 20
COUNTS = ("count", "in_references", "clipped", "unclipped")  # of an n-gram
LENGTHS = ("hypothesis_length", "reference_lengths", "closest_length")
STEPS = ("weight", "smoothing", *LENGTHS, "brevity_penalty", "bleu")


def bleu(
    hypotheses: Annotated[
        str, Argument(metavar="HYP", help="Translations, one per line; - is standard input.")
    ],
    references: Annotated[
        list[str], Argument(metavar="REF", help="Reference files with as many lines as HYP.")
    ],
    shared: Annotated[
        list[str] | None,
        Option(
            "--refs", metavar="REF", help="Reference to compare several systems with; repeatable."
        ),
    ] = None,
    with_tables: Annotated[
        bool, Option("--explain", help="Print the n-gram tables behind BLEU.")
    ] = False,
    tokenize: options.TOKENIZE = "13a",
    lowercase: options.LOWERCASE = False,
    with_chrf: Annotated[bool, Option("--chrf", help="Print chrF too.")] = False,
    with_ter: Annotated[bool, Option("--ter", help="Print TER too; lower is better.")] = False,
    with_interval: options.INTERVAL = False,
    table_format: options.FORMAT = "text",
    as_json: options.JSON = False,
) -> None:
    """Score translations against references: BLEU, chrF and TER.

    Files are plain text, .gz or .xz, one segment per line. The signature after a score names the
    number of references, case, tokenizer, smoothing and the version of sacreBLEU.

    With --refs REF, two or more systems are compared, each with its interval. The first is the
    baseline; each other system has the difference from it, with a two-sided p-value (paired
    bootstrap, 1000 samples).

    Example: regard bleu baseline.de out.de --refs test.de

    Example: regard bleu out.de test.de --explain
    """
    from sacrebleu.metrics import CHRF, TER

    from regard.metrics.bleu import bleu_metric, explain
    from regard.metrics.translation import measured

    form = choose_format(table_format, as_json)
    metrics: list[Metric] = [bleu_metric(tokenize, lowercase)]
    if with_chrf:
        metrics.append(CHRF(lowercase=lowercase))
    if with_ter:
        metrics.append(TER())
    if shared:
        if with_tables:
            raise BadInput("--explain: cannot be used with --refs, which compares systems")
        _compare([hypotheses, *references], shared, metrics, form)
        return
    (lines,), streams = _read([hypotheses], references)
    scores = [measured(metric, lines, streams, with_interval) for metric in metrics]
    tables = None
    if with_tables:
        tables = explain(lines, streams, tokenize=tokenize, lowercase=lowercase)
    if form == "json":
        print_json(_record(scores, tables))
        return
    if form != "text":
        ngrams = [] if tables is None else [*map(_ngram_table, tables.orders)]
        print_tables([score_table({"": scores}), *ngrams], form)
        return
    for score in scores:
        print_line(str(score))
    if tables:
        _print_tables(tables)


def _read(systems: list[str], references: list[str]) -> tuple[list[list[str]], list[list[str]]]:
    from regard.metrics.translation import check_parallel

    paths = [*systems, *references]
    if paths.count(STDIN) > 1:
        raise BadInput("-: standard input can only be read once; name files instead")
    texts = [list(read_lines(path)) for path in paths]
    outputs, streams = texts[: len(systems)], texts[len(systems) :]
    for system, lines in zip(systems, outputs, strict=True):
        check_parallel(lines, streams, names=[name_of(path) for path in (system, *references)])
    return outputs, streams


def _compare(
    systems: list[str], references: list[str], metrics: "list[Metric]", form: TableFormat
) -> None:
    """Print the scores of all systems, and their differences from the first, the baseline."""
    from regard.metrics.translation import compare

    (baseline, *outputs), streams = _read(systems, references)
    first, *rest = map(name_of, systems)
    compared = [
        (name, [compare(metric, baseline, lines, streams) for metric in metrics])
        for name, lines in zip(rest, outputs, strict=True)
    ]
    baselines = [comparison.baseline for comparison in compared[0][1]]
    if form == "json":
        records = [{"system": first, "scores": [*map(_score_record, baselines)]}]
        for name, comparisons in compared:
            records.append({"system": name, "scores": [*map(_comparison_record, comparisons)]})
        print_json({"systems": records})
        return
    if form != "text":
        print_tables([_comparison_table(first, baselines, compared)], form)
        return
    for score in baselines:
        print_line(f"{first}: {score}")
    for name, comparisons in compared:
        for change in comparisons:
            difference = f"{change.difference:+.2f}, p = {change.p_value:.4f}"
            print_line(f"{name}: {change.system}  {difference}")


def _comparison_table(
    first: str, baselines: "list[MetricScore]", compared: "list[tuple[str, list[Comparison]]]"
) -> OutputTable:
    """Scores of all systems; the baseline has neither difference nor p-value."""
    systems = {first: baselines} | {
        name: [comparison.system for comparison in comparisons] for name, comparisons in compared
    }
    tests: list[tuple[Cell, Cell]] = [(None, None)] * len(baselines)
    tests += [(it.difference, it.p_value) for _, comparisons in compared for it in comparisons]
    table = score_table(systems, "system")
    columns = [*table.columns, number_column("difference", "+.2f"), number_column("p", ".4f")]
    return OutputTable(
        columns, [[*row, *test] for row, test in zip(table.rows, tests, strict=True)]
    )


def _record(scores: "list[MetricScore]", tables: "Explanation | None") -> dict[str, object]:
    record: dict[str, object] = {"scores": [_score_record(score) for score in scores]}
    if tables:
        orders = list(map(_order_record, tables.orders, tables.precisions))
        record["explanation"] = {"orders": orders, **{key: getattr(tables, key) for key in STEPS}}
    return record


def _score_record(score: "MetricScore") -> dict[str, object]:
    record = {"name": score.name, "value": score.value, "signature": score.signature}
    return record | ({"interval": score.interval} if score.interval else {})


def _comparison_record(comparison: "Comparison") -> dict[str, object]:
    figures = {"difference": comparison.difference, "p_value": comparison.p_value}
    return _score_record(comparison.system) | figures


def _order_record(order: "NgramOrder", precision: float) -> dict[str, object]:
    ngrams = [
        {"ngram": " ".join(ngram.tokens), **{name: getattr(ngram, name) for name in COUNTS}}
        for ngram in order.ngrams
    ]
    sums = {"total": order.total, "clipped": order.clipped, "unclipped": order.unclipped}
    return {"n": order.n, **sums, "precision": precision, "ngrams": ngrams}


def _ngram_table(order: "NgramOrder", most: int | None = None) -> OutputTable:
    """Counts of the most frequent n-grams, or of all."""
    columns = [text_column("n-gram"), *(number_column(name.replace("_", " ")) for name in COUNTS)]
    rows = [
        [" ".join(ngram.tokens), *(getattr(ngram, name) for name in COUNTS)]
        for ngram in order.ngrams[:most]
    ]
    return OutputTable(columns, rows)


def _print_tables(tables: "Explanation") -> None:
    for order in tables.orders:
        clipped, unclipped = f"{order.clipped}/{order.total}", f"{order.unclipped}/{order.total}"
        print_line(f"\n{order.n}-grams: {clipped} clipped, {unclipped} unclipped")
        print_tables([_ngram_table(order, ROWS)])
        if len(order.ngrams) > ROWS:
            print_line(f"... and {len(order.ngrams) - ROWS} more, rarer ones (all with --json)")
    print_line("")
    unmatched = [str(order.n) for order in tables.orders if order.total and not order.clipped]
    if unmatched and tables.orders[0].clipped:
        orders = ", ".join(unmatched)
        print_line(f"smoothing {tables.smoothing}: nothing matched at order {orders}")
    lengths = ", ".join(map(str, tables.reference_lengths))
    closest = f"closest reference {tables.closest_length} (references {lengths})"
    penalty = f"{tables.brevity_penalty:.4f}"
    print_line(f"brevity penalty {penalty}: {tables.hypothesis_length} tokens, {closest}")
    product = " · ".join(f"{precision:.4f}" for precision in tables.precisions)
    power = f"1/{len(tables.orders)}"
    print_line(f"BLEU = 100 · {penalty} · ({product})^({power}) = {tables.bleu:.2f}")
