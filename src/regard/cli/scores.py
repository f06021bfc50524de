"""Scores of a model on the test sets of a recipe, and the expected score."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

from regard.api import Model
from regard.cli.io.console import cost_line, print_json, print_line, write_page
from regard.cli.io.table_formats import (
    Cell,
    Column,
    OutputTable,
    TableFormat,
    number_column,
    print_tables,
    score_table,
    text_column,
)
from regard.data.readers.fields import DropCounts
from regard.ground.errors import BadInput
from regard.inside.views.matrix_svg import draw_confusion
from regard.metrics.classification import Confusion
from regard.metrics.precision_recall import MEASURES, LabelScore
from regard.metrics.translation import MetricScore
from regard.tasks.task import TaskScores
from regard.training.recipe import Recipe
from regard.training.recipe_files import ExpectConfig
from regard.training.train import score_tests

TAKEN_FOR = "taken for"
MISTAKES = 3  # printed for each label
COLUMNS = 20  # most labels of a printed matrix, and most mistakes printed instead
LOWER = ("TER", "perplexity")  # metrics of which lower values are better

ScoreTables = dict[str, list[MetricScore]]
"""Scores by test set."""


def test_scores(
    model: Model, recipe: Recipe, data: Path, dropped: DropCounts | None = None
) -> ScoreTables:
    """All metrics of a model on each test set of the recipe."""
    tests = evaluate_tests(model, recipe, data, dropped)
    return {name: test.scores for name, test in tests.items()}


def evaluate_tests(
    model: Model,
    recipe: Recipe,
    data: Path,
    dropped: DropCounts | None = None,
    *,
    with_interval: bool = False,
) -> dict[str, TaskScores]:
    """All metrics of a model, and the scores of labels, on each test set of the recipe."""
    if not recipe.data.tests:
        raise BadInput("data.test: the recipe names no test set; add --dev to score its dev set")
    return score_tests(model, recipe, data, dropped, with_interval=with_interval)


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


def print_evaluation(
    tests: Mapping[str, TaskScores], model: Model, labels: bool, confusion: bool, form: TableFormat
) -> None:
    """Print the scores of all test sets, with label scores and confusion if requested."""
    if form == "json":
        for name, test in tests.items():
            print_record(name, test, model, labels, confusion)
        return
    several, items = len(tests) > 1, tests.items()
    tables = [label_table(it.of_labels, name if several else "label") for name, it in items]
    tables = tables if labels else []
    if confusion:
        tables += [
            confusion_table(confusion_of(it), name if several else "gold") for name, it in items
        ]
    scores = {name: test.scores for name, test in items}
    if form != "text":
        print_tables([_score_table(scores), *tables], form)
        return
    print_scores(scores, model)
    for table in tables:
        print_tables([table])


def print_record(
    name: str, results: TaskScores, model: Model, labels: bool, confusion: bool
) -> None:
    """Print the scores of a test set as JSON, with label scores and confusion if requested."""
    scores = results.scores
    record: dict[str, object] = {
        "set": name,
        **{score.name: score.value for score in scores},
        "signatures": {score.name: score.signature for score in scores},
        "intervals": {score.name: score.interval for score in scores if score.interval},
        "cost": model.notes.get("cost"),
    }
    if labels:
        record["labels"] = [*map(asdict, results.of_labels)]
    if confusion:
        classes, counts = confusion_of(results)
        record["confusion"] = {"labels": classes, "counts": counts.astype(int).tolist()}
    print_json(record)


def label_table(scores: Sequence[LabelScore], title: str) -> OutputTable:
    """Precision, recall and F1 of each label, and the labels that were predicted instead."""
    measures = [number_column(name, ".2f") for name in MEASURES]
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
        raise BadInput("--confusion, --svg: spans of words have no confusion matrix; use --labels")
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


def draw_confusions(path: Path, title: str, tests: Mapping[str, TaskScores]) -> None:
    """Draw the confusion matrix of each test set; several are written to FILE-NAME.svg."""
    for name, results in tests.items():
        file, heading = path, title
        if len(tests) > 1:
            file, heading = path.with_name(f"{path.stem}-{name}{path.suffix}"), f"{title}: {name}"
        write_page(file, partial(draw_confusion, heading, confusion_of(results)))


def print_scores(tables: ScoreTables, model: Model, form: TableFormat = "text") -> None:
    """Print scores with their signatures, by test set, and in text the cost of training."""
    if form != "text":
        print_tables([_score_table(tables)], form)
        return
    for name, scores in tables.items():
        for score in scores:
            print_line(f"{name}  {score}" if len(tables) > 1 else str(score))
    if "cost" in model.notes:
        print_line(cost_line(model.notes["cost"]))


def _score_table(scores: ScoreTables) -> OutputTable:
    return score_table(scores, "set" if len(scores) > 1 else "")


def check_expected(
    expect: ExpectConfig, scores: Iterable[MetricScore], *, quiet: bool = False
) -> bool:
    """Whether the expected score is reached; print the comparison unless ``quiet``."""
    value = next(score.value for score in scores if score.name.startswith(expect.metric))
    short = value - expect.score if expect.metric in LOWER else expect.score - value
    reached = short <= expect.tolerance
    if not quiet:
        print_line(
            f"expected: {expect.metric} {expect.score:g} ± {expect.tolerance:g} ({expect.source}); "
            f"measured {value:.2f}: {'reached' if reached else 'NOT reached'}"
        )
    return reached
