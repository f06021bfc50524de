"""``regard bleu``: scores of translations, and on request the n-gram tables behind BLEU."""

import json
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from regard.cli.options import INTERVAL, JSON, LOWERCASE, TOKENIZE
from regard.data.sources import STDIN, name_of, read_lines
from regard.ground.errors import BadInput

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric

    from regard.metrics.bleu import Explanation, NgramOrder
    from regard.metrics.translation import Comparison, MetricScore

ROWS = 20
UNWRAPPED = 1_000_000


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
    from regard.metrics.bleu import bleu_metric, explain
    from regard.metrics.translation import chrf_metric, measured, ter_metric

    metrics: list[Metric] = [bleu_metric(tokenize, lowercase)]
    if with_chrf:
        metrics.append(chrf_metric(lowercase=lowercase))
    if with_ter:
        metrics.append(ter_metric())
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
        typer.echo(json.dumps(_record(scores, working), ensure_ascii=False))
        return
    for score in scores:
        typer.echo(score)
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
    found = [[compare(metric, baseline, lines, streams) for metric in metrics] for lines in others]
    if as_json:
        records = [{"system": first, "scores": [_score_record(one.baseline) for one in found[0]]}]
        for name, comparisons in zip(rest, found, strict=True):
            records.append({"system": name, "scores": list(map(_comparison_record, comparisons))})
        typer.echo(json.dumps({"systems": records}, ensure_ascii=False))
        return
    for one in found[0]:
        typer.echo(f"{first}: {one.baseline}")
    for name, comparisons in zip(rest, found, strict=True):
        for one in comparisons:
            typer.echo(f"{name}: {one.system}  {one.difference:+.2f}, p = {one.p_value:.4f}")


def _record(scores: "list[MetricScore]", working: "Explanation | None") -> dict[str, Any]:
    record: dict[str, Any] = {"scores": [_score_record(score) for score in scores]}
    if working:
        record["explanation"] = {
            "orders": list(map(_order_record, working.orders, working.precisions)),
            "weight": working.weight,
            "smoothing": working.smoothing,
            "hypothesis_length": working.hypothesis_length,
            "reference_lengths": working.reference_lengths,
            "closest_length": working.closest_length,
            "brevity_penalty": working.brevity_penalty,
            "bleu": working.bleu,
        }
    return record


def _score_record(score: "MetricScore") -> dict[str, Any]:
    record = {"name": score.name, "value": score.value, "signature": score.signature}
    return record | ({"interval": score.interval} if score.interval else {})


def _comparison_record(one: "Comparison") -> dict[str, Any]:
    return _score_record(one.system) | {"difference": one.difference, "p_value": one.p_value}


def _order_record(order: "NgramOrder", precision: float) -> dict[str, Any]:
    return {
        "n": order.n,
        "total": order.total,
        "clipped": order.clipped,
        "unclipped": order.unclipped,
        "precision": precision,
        "ngrams": [
            {
                "ngram": " ".join(ngram.tokens),
                "count": ngram.count,
                "in_references": ngram.in_references,
                "clipped": ngram.clipped,
                "unclipped": ngram.unclipped,
            }
            for ngram in order.ngrams
        ],
    }


def _print_working(working: "Explanation") -> None:
    terminal = sys.stdout.isatty()
    console = Console(
        force_terminal=terminal,
        width=None if terminal else UNWRAPPED,  # in a pipe rich would fold at 80 columns
        markup=False,
        emoji=False,
        highlight=False,
    )
    for order in working.orders:
        console.print(f"\n{order.n}-grams: {_matches(order)}")
        console.print(_ngram_table(order))
        if len(order.ngrams) > ROWS:
            console.print(f"... and {len(order.ngrams) - ROWS} more, rarer ones (all with --json)")
    console.print()
    for line in _summary(working):
        console.print(line)


def _matches(order: "NgramOrder") -> str:
    clipped, unclipped = f"{order.clipped}/{order.total}", f"{order.unclipped}/{order.total}"
    return f"{clipped} clipped, {unclipped} unclipped"


def _ngram_table(order: "NgramOrder") -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("n-gram", no_wrap=True)
    for heading in ("count", "in references", "clipped", "unclipped"):
        table.add_column(heading, justify="right", no_wrap=True)
    for ngram in order.ngrams[:ROWS]:
        numbers = ngram.count, ngram.in_references, ngram.clipped, ngram.unclipped
        table.add_row(" ".join(ngram.tokens), *map(str, numbers))
    return table


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
