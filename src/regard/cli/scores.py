"""Scores of a model on the test sets of a recipe, and the expected score."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

from regard.api import Model
from regard.cli.io.console import cost_line, print_json, print_line, print_table, write_page
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
    if recipe.data.test is None:
        raise BadInput("data.test: the recipe names no test set")
    return score_tests(model, recipe, data, dropped, with_interval=with_interval)


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


def print_labels(scores: Sequence[LabelScore], title: str) -> None:
    """Print precision, recall and F1 of each label, and the labels that were predicted instead."""
    rows = []
    for score in scores:
        values = [f"{value:.2f}" for value in (score.precision, score.recall, score.f1)]
        mistakes = [f"{label} ({count:,})" for label, count in score.taken_for[:MISTAKES]]
        rows.append([score.label, *values, f"{score.count:,}", ", ".join(mistakes)])
    columns = [title, *MEASURES, "number", "taken for"]
    print_table(columns, rows, left=(0, len(columns) - 1))


def confusion_of(results: TaskScores) -> Confusion:
    """The confusion matrix of a task whose examples have one label each."""
    if results.confusion is None:
        raise BadInput("--confusion, --svg: entities have no confusion matrix; use --labels")
    return results.confusion


def print_confusion(confusion: Confusion, title: str) -> None:
    """Print the confusion matrix, or for many labels the most frequent mistakes."""
    if len(confusion.classes) <= COLUMNS:
        counts = [[f"{count:,.0f}" if count else "·" for count in row] for row in confusion.counts]
        rows = [[name, *row] for name, row in zip(confusion.classes, counts, strict=True)]
        print_table([title, *confusion.classes], rows)
        return
    mistakes = [
        [mistake.gold, mistake.predicted, f"{mistake.number:,}", f"{100 * mistake.share:.1f}%"]
        for mistake in confusion.mistakes()[:COLUMNS]
    ]
    print_table([title, "predicted", "number", "share"], mistakes, left=(0, 1))


def draw_confusions(path: Path, title: str, tests: Mapping[str, TaskScores]) -> None:
    """Draw the confusion matrix of each test set; several are written to FILE-NAME.svg."""
    for name, results in tests.items():
        file, heading = path, title
        if len(tests) > 1:
            file, heading = path.with_name(f"{path.stem}-{name}{path.suffix}"), f"{title}: {name}"
        write_page(file, partial(draw_confusion, heading, confusion_of(results)))


def print_scores(tables: ScoreTables, model: Model) -> None:
    """Print scores with their signatures, by test set, and the cost of training."""
    for name, scores in tables.items():
        for score in scores:
            print_line(f"{name}  {score}" if len(tables) > 1 else str(score))
    if "cost" in model.notes:
        print_line(cost_line(model.notes["cost"]))


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
