"""Scores of a model on the test sets of a recipe, and the expected score."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from rich.text import Text

from regard.api import Model
from regard.core.errors import ArgumentName, BadArgument, BadInput
from regard.data.readers.fields import Dropped
from regard.experiments.result import (
    Cell,
    Column,
    ExperimentResult,
    OutputTable,
    lines_of,
    number_column,
    score_table,
    text_column,
)
from regard.metrics.classification import ITEM_MEASURES, Confusion, LabelScore
from regard.metrics.translation import MetricScore
from regard.tasks.task import TaskScores
from regard.training.recipe_files import ExpectConfig
from regard.training.run_events import AnyRecipe, recipe_of, score_tests, with_dev_as_test
from regard.views.matrix_svg import draw_confusion

TAKEN_FOR = "taken for"
MISTAKES = 3  # printed for each label
COLUMNS = 20  # most labels of a printed matrix, and most mistakes printed instead
LOWER = ("TER", "perplexity")  # metrics of which lower values are better

ScoreTables = Mapping[str, Sequence[MetricScore]]
"""Scores by test set."""
Cost = Mapping[str, float]
"""Parameters, FLOPs, tokens and device time of a training run."""


@dataclass(frozen=True)
class Expected:
    """The expected score of a recipe, and the ``value`` that was measured."""

    expect: ExpectConfig
    value: float

    @classmethod
    def of(cls, expect: ExpectConfig, scores: Iterable[MetricScore]) -> "Expected":
        """The score of the expected metric."""
        return cls(expect, next(it.value for it in scores if it.name.startswith(expect.metric)))

    @property
    def reached(self) -> bool:
        """Whether the value is as good as expected, within the tolerance."""
        short = self.expect.score - self.value
        return (-short if self.expect.metric in LOWER else short) <= self.expect.tolerance

    def __str__(self) -> str:
        expect = self.expect
        return (
            f"expected: {expect.metric} {expect.score:g} ± {expect.tolerance:g} "
            f"({expect.source}); measured {self.value:.2f}: "
            f"{'reached' if self.reached else 'NOT reached'}"
        )


@dataclass(frozen=True)
class Evaluation(ExperimentResult):
    """Scores of a model by test set, with the ``cost`` of its training, if that is known.

    ``labels`` and ``confusion``: also those of each label, and what was taken for what.
    """

    tests: Mapping[str, TaskScores]
    cost: Cost | None
    expected: Expected | None = None
    labels: bool = False
    confusion: bool = False

    @property
    def reached(self) -> bool:
        """Whether the expected score is reached, if there is one."""
        return self.expected is None or self.expected.reached

    def tables(self) -> list[OutputTable]:
        scores = {name: test.scores for name, test in self.tests.items()}
        of_sets = score_table(scores, "set" if len(scores) > 1 else "")
        return [of_sets, *self._tables_of_labels()]

    def _tables_of_labels(self) -> Iterator[OutputTable]:
        several = len(self.tests) > 1
        for name, test in self.tests.items() if self.labels else ():
            yield label_table(test.of_labels, name if several else "label")
        for name, test in self.tests.items() if self.confusion else ():
            yield confusion_table(confusion_of(test), name if several else "gold")

    def records(self) -> Iterator[dict[str, object]]:
        for name, test in self.tests.items():
            record: dict[str, object] = {
                "set": name,
                **{score.name: score.value for score in test.scores},
                "signatures": {score.name: score.signature for score in test.scores},
                "intervals": {it.name: it.interval for it in test.scores if it.interval},
                "cost": self.cost,
            }
            if self.labels:
                record["labels"] = [*map(asdict, test.of_labels)]
            if self.confusion:
                classes, counts = confusion_of(test)
                record["confusion"] = {"labels": classes, "counts": counts.astype(int).tolist()}
            yield record

    def text(self, width: int | None = None) -> Iterator[Text | str]:
        several, tables = len(self.tests) > 1, [*self._tables_of_labels()]
        for name, test in self.tests.items():
            yield from (f"{name}  {score}" if several else str(score) for score in test.scores)
        if self.cost is not None:
            yield cost_line(self.cost)
        for table in tables:
            yield from lines_of([table], "text", width)
        if self.expected is not None:
            yield str(self.expected)

    def drawings(self, title: str) -> dict[str, str]:
        """The confusion matrix of each test set, as SVG."""
        several = len(self.tests) > 1
        return {
            name: draw_confusion(f"{title}: {name}" if several else title, confusion_of(test))
            for name, test in self.tests.items()
        }


def evaluate(
    model: Model,
    recipe: AnyRecipe,
    data: str | Path = Path(),
    *,
    on_dev: bool = False,
    dropped: Dropped = None,
    with_interval: bool = False,
    settings: Mapping[str, str] | None = None,
    labels: bool = False,
    confusion: bool = False,
    check: bool = True,
) -> Evaluation:
    """Score a model on each test set of a recipe, or on its dev set.

    ``str`` of the result is its text; ``labels`` and ``confusion`` add the scores of each label,
    and what was taken for what. ``dropped`` counts bad examples, which are left out; by default
    they are an error. ``settings``, such as the hash of edits, are added to signatures; without
    ``check``, no score is expected.
    """
    described = with_dev_as_test(recipe_of(recipe)) if on_dev else recipe_of(recipe)
    if not described.data.tests:
        remedy = ("add ", ArgumentName("on_dev"), " to score its dev set")
        raise BadInput("data.test: the recipe names no test set", remedy=remedy)
    tests = score_tests(model, described, Path(data), dropped, with_interval=with_interval)
    tests = with_settings(tests, settings or {})
    expected = None
    if check and described.expect is not None and "test" in tests:
        expected = Expected.of(described.expect, tests["test"].scores)
    return Evaluation(tests, model.notes.get("cost"), expected, labels, confusion)


def with_settings(
    tests: Mapping[str, TaskScores], settings: Mapping[str, str]
) -> dict[str, TaskScores]:
    """Scores with further settings, such as the hash of edits, in their signatures."""
    more = [f"{key}:{value}" for key, value in settings.items()]
    return {
        name: test._replace(
            scores=[
                replace(score, signature="|".join(filter(None, [score.signature, *more])))
                for score in test.scores
            ]
        )
        for name, test in tests.items()
    }


def label_table(scores: Sequence[LabelScore], title: str) -> OutputTable:
    """Precision, recall and F1 of each label, and the labels that were predicted instead."""
    measures = [number_column(name, ".2f") for name in ITEM_MEASURES]
    columns = [text_column(title), *measures, number_column("number", ","), text_column(TAKEN_FOR)]
    rows: list[list[Cell]] = []
    for score in scores:
        mistakes = [f"{label} ({count:,})" for label, count in score.taken_for[:MISTAKES]]
        values = (score.precision, score.recall, score.f1, score.count)
        rows.append([score.label, *values, ", ".join(mistakes)])
    return OutputTable(columns, rows)


def confusion_of(results: TaskScores) -> Confusion:
    """The confusion matrix of a task whose examples have one label each."""
    if results.confusion is None:
        fault, remedy = "spans of words have no confusion matrix", ("use ", ArgumentName("labels"))
        raise BadArgument(fault, key=("confusion", "svg"), remedy=remedy)
    return results.confusion


def confusion_table(confusion: Confusion, title: str) -> OutputTable:
    """The confusion matrix, or for many labels the most frequent mistakes."""
    if len(confusion.classes) <= COLUMNS:
        counts = [Column(name, _show_count) for name in confusion.classes]
        rows: list[list[Cell]] = [
            [name, *map(int, row)]
            for name, row in zip(confusion.classes, confusion.counts, strict=True)
        ]
        return OutputTable([text_column(title), *counts], rows)
    columns = [text_column(title), text_column("predicted"), number_column("number", ",")]
    return OutputTable([*columns, number_column("share", ".1%")], confusion.mistakes()[:COLUMNS])


def _show_count(count: int) -> str:
    return f"{count:,}" if count else "·"


def cost_line(cost: Cost) -> str:
    """Parameters, FLOPs, tokens and device time of a training run, in one line."""
    return (
        f"cost: {cost['parameters']:,.0f} parameters, {cost['training_flops']:.3g} training FLOPs, "
        f"{cost['tokens']:,.0f} tokens, {cost['device_seconds']:,.0f} device-seconds"
    )
