"""``regard bleu``: scores of translations, and on request the n-gram tables behind BLEU."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.io.console import print_json, print_line, print_table
from regard.cli.options import INTERVAL, JSON, LOWERCASE, TOKENIZE
from regard.data.files.text_files import STDIN, name_of, read_lines
from regard.ground.errors import BadInput

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric

    from regard.metrics.bleu import Explanation, NgramOrder
    from regard.metrics.translation import Comparison, MetricScore

ROWS = 20
COUNTS = ("count", "in_references", "clipped", "unclipped")  # of an n-gram
STEPS = (
    "weight",
    "smoothing",
    "hypothesis_length",
    "reference_lengths",
    "closest_length",
    "brevity_penalty",
    "bleu",
)


def bleu(
    hypotheses: Annotated[
        str, typer.Argument(metavar="HYP", help="Translations, one per line; - is standard input.")
    ],
    references: Annotated[
        list[str], typer.Argument(metavar="REF", help="References with as many lines.")
    ],
    shared: Annotated[
        list[str] | None,
        typer.Option(
            "--refs",
            metavar="REF",
            help="Compare systems: all arguments are translations, and this is a reference; "
            "repeatable.",
        ),
    ] = None,
    with_tables: Annotated[
        bool, typer.Option("--explain", help="Print the n-gram tables behind BLEU.")
    ] = False,
    tokenize: TOKENIZE = "13a",
    lowercase: LOWERCASE = False,
    with_chrf: Annotated[bool, typer.Option("--chrf", help="Print chrF too.")] = False,
    with_ter: Annotated[
        bool, typer.Option("--ter", help="Print TER too; lower is better.")
    ] = False,
    with_interval: INTERVAL = False,
    as_json: JSON = False,
) -> None:
    """Score translations against references: BLEU, chrF and TER.

    Files are plain text, .gz or .xz, one segment per line. The signature after a score names the
    number of references, case, tokenizer, smoothing and the version of sacreBLEU.

    With --refs REF, two or more systems are compared, each with its interval. The first is the
    baseline; for the others the two-sided p-value of the difference is printed (paired bootstrap,
    1000 samples).

    Example: regard bleu baseline.de out.de --refs test.de

    Example: regard bleu out.de test.de --explain
    """
    from sacrebleu.metrics import CHRF, TER

    from regard.metrics.bleu import bleu_metric, explain
    from regard.metrics.translation import measured

    metrics: list[Metric] = [bleu_metric(tokenize, lowercase)]
    if with_chrf:
        metrics.append(CHRF(lowercase=lowercase))
    if with_ter:
        metrics.append(TER())
    if shared:
        if with_tables:
            raise BadInput("--explain describes one system, and --refs compares several")
        _compare([hypotheses, *references], shared, metrics, as_json)
        return
    (lines,), streams = _read([hypotheses], references)
    scores = [measured(metric, lines, streams, with_interval) for metric in metrics]
    working = None
    if with_tables:
        working = explain(lines, streams, tokenize=tokenize, lowercase=lowercase)
    if as_json:
        print_json(_record(scores, working))
        return
    for score in scores:
        print_line(str(score))
    if working:
        _print_working(working)


def _read(systems: list[str], references: list[str]) -> tuple[list[list[str]], list[list[str]]]:
    from regard.metrics.translation import check_parallel

    paths = [*systems, *references]
    if paths.count(STDIN) > 1:
        raise BadInput("standard input can only be read once")
    texts = [list(read_lines(path)) for path in paths]
    outputs, streams = texts[: len(systems)], texts[len(systems) :]
    for system, lines in zip(systems, outputs, strict=True):
        check_parallel(lines, streams, names=[name_of(path) for path in (system, *references)])
    return outputs, streams


def _compare(
    systems: list[str], references: list[str], metrics: "list[Metric]", as_json: bool
) -> None:
    """Every system after the first against the first, the baseline.

    One metric measures both sides of a comparison, so they have one signature.
    """
    from regard.metrics.translation import compare

    (baseline, *others), streams = _read(systems, references)
    first, *rest = map(name_of, systems)
    by_system = [
        [compare(metric, baseline, lines, streams) for metric in metrics] for lines in others
    ]
    if as_json:
        records = [
            {"system": first, "scores": [_score_record(one.baseline) for one in by_system[0]]}
        ]
        for name, comparisons in zip(rest, by_system, strict=True):
            records.append({"system": name, "scores": list(map(_comparison_record, comparisons))})
        print_json({"systems": records})
        return
    for one in by_system[0]:
        print_line(f"{first}: {one.baseline}")
    for name, comparisons in zip(rest, by_system, strict=True):
        for one in comparisons:
            print_line(f"{name}: {one.system}  {one.difference:+.2f}, p = {one.p_value:.4f}")


def _record(scores: "list[MetricScore]", working: "Explanation | None") -> dict[str, object]:
    record: dict[str, object] = {"scores": [_score_record(score) for score in scores]}
    if working:
        orders = list(map(_order_record, working.orders, working.precisions))
        record["explanation"] = {"orders": orders} | {one: getattr(working, one) for one in STEPS}
    return record


def _score_record(score: "MetricScore") -> dict[str, object]:
    record = {"name": score.name, "value": score.value, "signature": score.signature}
    return record | ({"interval": score.interval} if score.interval else {})


def _comparison_record(one: "Comparison") -> dict[str, object]:
    return _score_record(one.system) | {"difference": one.difference, "p_value": one.p_value}


def _order_record(order: "NgramOrder", precision: float) -> dict[str, object]:
    ngrams = [
        {"ngram": " ".join(one.tokens), **{name: getattr(one, name) for name in COUNTS}}
        for one in order.ngrams
    ]
    sums = {"total": order.total, "clipped": order.clipped, "unclipped": order.unclipped}
    return {"n": order.n, **sums, "precision": precision, "ngrams": ngrams}


def _print_working(working: "Explanation") -> None:
    columns = ("n-gram", *(name.replace("_", " ") for name in COUNTS))
    for order in working.orders:
        clipped, unclipped = f"{order.clipped}/{order.total}", f"{order.unclipped}/{order.total}"
        print_line(f"\n{order.n}-grams: {clipped} clipped, {unclipped} unclipped")
        shown = order.ngrams[:ROWS]
        counts = [[str(getattr(one, name)) for name in COUNTS] for one in shown]
        texts = [" ".join(one.tokens) for one in shown]
        print_table(columns, [[text, *row] for text, row in zip(texts, counts, strict=True)])
        if len(order.ngrams) > ROWS:
            print_line(f"... and {len(order.ngrams) - ROWS} more, rarer ones (all with --json)")
    print_line("")
    for line in _summary(working):
        print_line(line)


def _summary(working: "Explanation") -> Iterator[str]:
    unmatched = [str(order.n) for order in working.orders if order.total and not order.clipped]
    if unmatched and working.orders[0].clipped:
        yield f"smoothing {working.smoothing}: nothing matched at order {', '.join(unmatched)}"
    lengths = ", ".join(map(str, working.reference_lengths))
    yield (
        f"brevity penalty {working.brevity_penalty:.4f}: {working.hypothesis_length} tokens, "
        f"closest reference {working.closest_length} (references {lengths})"
    )
    product = " · ".join(f"{precision:.4f}" for precision in working.precisions)
    power = f"1/{len(working.orders)}"
    yield f"BLEU = 100 · {working.brevity_penalty:.4f} · ({product})^({power}) = {working.bleu:.2f}"
