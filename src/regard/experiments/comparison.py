"""Two models on the same test sets, with paired significance tests."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.api import Model, load
from regard.data.readers.fields import DropCounts
from regard.experiments.notes import Listener, Note, ignore
from regard.experiments.result import (
    Cell,
    ExperimentResult,
    OutputTable,
    number_column,
    text_column,
)
from regard.experiments.scores import LOWER
from regard.metrics.intervals import PairedTests, paired_tests
from regard.metrics.translation import MetricScore
from regard.tasks.task import TaskScores
from regard.training.recipe import Recipe
from regard.training.run_events import AnyRecipe, recipe_of, score_tests, with_dev_as_test

TESTS = ("bootstrap", "randomisation", "mcnemar")


@dataclass(frozen=True)
class Compared:
    """A metric of both models on a test set; ``tests`` is None where examples have no scores."""

    test_set: str
    baseline: MetricScore
    system: MetricScore
    tests: PairedTests | None

    @property
    def difference(self) -> float:
        """The score of the system minus that of the baseline."""
        return self.system.value - self.baseline.value

    @property
    def interval(self) -> tuple[float | None, float | None]:
        """95% interval of the difference."""
        return (None, None) if self.tests is None else self.tests.interval

    @property
    def p_values(self) -> dict[str, float | None]:
        """Two-sided p-values by test."""
        return {} if self.tests is None else {name: getattr(self.tests, name) for name in TESTS}


@dataclass(frozen=True)
class ModelComparison(ExperimentResult):
    """All metrics of two models, each with the tests of its difference."""

    baseline: str
    system: str
    metrics: Sequence[Compared]

    def tables(self) -> list[OutputTable]:
        several = len({it.test_set for it in self.metrics}) > 1
        numbers = [number_column(name, ".2f") for name in ("A", "B")]
        numbers += [number_column(name, "+.2f", missing="–") for name in ("B - A", "low", "high")]
        tests = [number_column(name, ".4f", missing="–") for name in TESTS]
        columns = [text_column("metric"), *numbers, *tests]
        rows: list[list[Cell]] = []
        for it in self.metrics:
            p_values = [it.p_values.get(test) for test in TESTS]
            values = (it.baseline.value, it.system.value, it.difference, *it.interval)
            rows.append([*[it.test_set] * several, it.baseline.name, *values, *p_values])
        columns = [*[text_column("set")] * several, *columns]
        return [OutputTable(columns, rows, notes=[*self._notes()])]

    def _notes(self) -> Iterator[str]:
        yield f"A: {self.baseline}"
        yield f"B: {self.system}"
        yield "low, high: 95% interval of B - A; then p-values"
        if any(it.tests is not None and it.tests.bootstrap is None for it in self.metrics):
            yield "bootstrap: below 50 examples it rejects too often; see randomisation"
        names = {it.baseline.name for it in self.metrics}
        if lower := [name for name in LOWER if name in names]:
            yield f"lower is better: {', '.join(lower)}"

    def records(self) -> Iterator[dict[str, object]]:
        for it in self.metrics:
            yield {
                "set": it.test_set,
                "metric": it.baseline.name,
                "baseline": {"value": it.baseline.value, "signature": it.baseline.signature},
                "system": {"value": it.system.value, "signature": it.system.signature},
                "difference": it.difference,
                "interval": None if it.tests is None else it.interval,
                "p_values": it.p_values,
            }


def compare(
    baseline: str | Path,
    system: str | Path,
    *,
    recipe: AnyRecipe,
    data: str | Path = Path(),
    on_dev: bool = False,
    skip_bad: bool = False,
    batch_size: int | None = None,
    precision: str | None = "auto",
    device: str | None = None,
    on_event: Listener = ignore,
) -> ModelComparison:
    """Compare two model folders on each test set of a recipe.

    A recipe without a test set is scored on its dev set, as all are with ``on_dev``. The first
    model is scored before the second is loaded. p-values are not corrected for the number of
    metrics.
    """
    described = recipe_of(recipe)
    if on_dev or not described.data.tests:
        described = with_dev_as_test(described)
    scores = list[Mapping[str, TaskScores]]()
    for folder in (baseline, system):
        model = load(folder, device, precision=precision, batch_size=batch_size)
        scores.append(_scores(str(folder), model, described, Path(data), skip_bad, on_event))
    first, second = scores
    metrics = [
        row
        for name in first
        for row in paired(name, first[name].scores, second[name].scores, on_event)
    ]
    return ModelComparison(str(baseline), str(system), metrics)


def _scores(
    folder: str, model: Model, recipe: Recipe, data: Path, skip_bad: bool, on_event: Listener
) -> dict[str, TaskScores]:
    dropped = DropCounts() if skip_bad else None
    tests = score_tests(model, recipe, data, dropped)
    if dropped:
        on_event(Note(f"{folder}: dropped: {dropped}"))
    return tests


def paired(
    name: str,
    first: Sequence[MetricScore],
    second: Sequence[MetricScore],
    on_event: Listener = ignore,
) -> list[Compared]:
    """Each metric of a test set that both models have, with the tests of its difference."""
    by_name = {score.name: score for score in second}
    compared: list[Compared] = []
    for score in first:
        other = by_name.get(score.name)
        if other is None:
            only = "is a metric of the first model only: not compared"
            on_event(Note(f"{name}: {score.name} {only}"))
            continue
        if score.signature != other.signature:
            signatures = f"{score.signature} of A, {other.signature} of B"
            on_event(Note(f"{name}: {score.name}: {signatures}"))
        tests = None
        if score.statistics is not None and other.statistics is not None:
            tests = paired_tests(score.statistics, other.statistics)
        compared.append(Compared(name, score, other, tests))
    return compared
