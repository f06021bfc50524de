"""``regard compare``: two models on the same test sets, with paired significance tests."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from regard.cli import options
from regard.cli.io.console import note, print_json
from regard.cli.io.table_formats import (
    Cell,
    OutputTable,
    choose_format,
    number_column,
    print_tables,
    text_column,
)

if TYPE_CHECKING:
    from regard.metrics.paired import PairedTests
    from regard.metrics.translation import MetricScore

    Compared = tuple[str, MetricScore, MetricScore, PairedTests | None]

TESTS = ("bootstrap", "randomisation", "mcnemar")


def compare(
    baseline: Annotated[
        str, Argument(metavar="A", help="Model folder, or id on the hub: the baseline.")
    ],
    system: Annotated[str, Argument(metavar="B", help="Model to compare with the baseline.")],
    recipe: Annotated[
        str, Option("--recipe", metavar="RECIPE", help="Recipe whose test sets are scored.")
    ],
    on_dev: options.ON_DEV = False,
    data: options.DATA = Path(),
    skip_bad: options.SKIP_BAD = False,
    batch_size: options.BATCH_SIZE = None,
    precision: options.PRECISION = "auto",
    device: options.DEVICE = None,
    table_format: options.FORMAT = "text",
    as_json: options.JSON = False,
) -> None:
    """Compare two models by paired significance tests.

    For each metric: both scores, the difference B - A with its 95% interval, and two-sided
    p-values of the difference: paired bootstrap (1000 samples), approximate randomisation (10,000
    trials) and, where each example is right or wrong, the exact test of McNemar. A recipe without
    test set is scored on its dev set. p-values are not corrected for the number of metrics.

    Example: regard compare runs/small/model runs/large/model --recipe tour --data runs/tour/corpus
    """
    from regard.api import load
    from regard.data.readers.fields import DropCounts
    from regard.training.recipe import read
    from regard.training.recipe_files import find
    from regard.training.train import score_tests, with_dev_as_test

    form = choose_format(table_format, as_json)
    described = read(find(recipe))
    if on_dev or not described.data.tests:
        described = with_dev_as_test(described)
    results = []
    for folder in (baseline, system):
        model = load(folder, device, precision=precision, batch_size=batch_size)
        dropped = DropCounts() if skip_bad else None
        results.append(score_tests(model, described, data, dropped))
        if dropped:
            note(f"{folder}: dropped: {dropped}")
    first, second = results
    compared = [
        row for name in first for row in _paired(name, first[name].scores, second[name].scores)
    ]
    if form == "json":
        print_json(*map(_record, compared))
    else:
        print_tables([_table(baseline, system, compared)], form)


def _paired(name: str, first: "list[MetricScore]", second: "list[MetricScore]") -> "list[Compared]":
    """Each metric of a set that both models have, with the tests of its difference."""
    from regard.metrics.paired import paired_tests

    by_name = {score.name: score for score in second}
    compared: list[Compared] = []
    for score in first:
        other = by_name.get(score.name)
        if other is None:
            note(f"{name}: {score.name} is a metric of the first model only: not compared")
            continue
        if score.signature != other.signature:
            note(f"{name}: {score.name}: {score.signature} of A, {other.signature} of B")
        tests = None
        if score.statistics is not None and other.statistics is not None:
            tests = paired_tests(score.statistics, other.statistics)
        compared.append((name, score, other, tests))
    return compared


def _table(baseline: str, system: str, compared: "list[Compared]") -> OutputTable:
    from regard.cli.scores import LOWER

    several = len({name for name, *_ in compared}) > 1
    numbers = [number_column(name, ".2f") for name in ("A", "B")]
    numbers += [number_column(name, "+.2f", missing="–") for name in ("B - A", "low", "high")]
    tests = [number_column(name, ".4f", missing="–") for name in TESTS]
    columns = [text_column("metric"), *numbers, *tests]
    rows: list[list[Cell]] = []
    for name, first, second, paired in compared:
        difference = second.value - first.value
        interval = (None, None) if paired is None else paired.interval
        p_values = [None] * len(TESTS) if paired is None else [getattr(paired, t) for t in TESTS]
        row = [first.name, first.value, second.value, difference, *interval, *p_values]
        rows.append([name, *row] if several else row)
    notes = [f"A: {baseline}", f"B: {system}", "low, high: 95% interval of B - A; then p-values"]
    lower = [name for name in LOWER if name in {first.name for _, first, *_ in compared}]
    notes += [f"lower is better: {', '.join(lower)}"] if lower else []
    return OutputTable([*([text_column("set")] if several else []), *columns], rows, notes=notes)


def _record(compared: "Compared") -> dict[str, object]:
    name, first, second, paired = compared
    return {
        "set": name,
        "metric": first.name,
        "baseline": {"value": first.value, "signature": first.signature},
        "system": {"value": second.value, "signature": second.signature},
        "difference": second.value - first.value,
        "interval": None if paired is None else paired.interval,
        "p_values": {} if paired is None else {test: getattr(paired, test) for test in TESTS},
    }
