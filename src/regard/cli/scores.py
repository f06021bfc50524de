"""Scores of a model on the test sets of a recipe: measured, printed, compared with the expected."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

from regard.api import Model
from regard.cli.io.console import OUT, cost_line, print_json, print_table, write_page
from regard.data.files.fields import DropCounts
from regard.ground.errors import BadInput
from regard.inside.views.matrix_svg import draw_confusion
from regard.metrics.classification import Confusion
from regard.metrics.precision_recall import MEASURES, LabelScore
from regard.metrics.translation import MetricScore
from regard.tasks.task import TaskScores
from regard.training.recipe import Recipe
from regard.training.recipe_files import ExpectConfig
from regard.training.train import score_tests

MISTAKES = 3  # shown of each label
COLUMNS = 20  # labels of a matrix that is printed; of more, so many mistakes are
LOWER = ("TER", "perplexity")  # metrics of which lower values are better


def test_scores(
    model: Model, recipe: Recipe, data: Path, dropped: DropCounts | None = None
) -> dict[str, list[MetricScore]]:
    """All metrics of a model on each test set of the recipe."""
    return {name: one.scores for name, one in evaluate_tests(model, recipe, data, dropped).items()}


def evaluate_tests(
    model: Model,
    recipe: Recipe,
    data: Path,
    dropped: DropCounts | None = None,
    *,
    with_interval: bool = False,
) -> dict[str, TaskScores]:
    """The scores, and the scores of each label."""
    if recipe.data.test is None:
        raise BadInput("the recipe names no test set (data.test)")
    return score_tests(model, recipe, data, dropped, with_interval=with_interval)


def print_record(
    name: str, results: TaskScores, model: Model, labels: bool, confusion: bool
) -> None:
    """The scores of one test set as JSON, perhaps with those of labels and their confusion."""
    scores = results.scores
    record: dict[str, object] = {
        "set": name,
        **{score.name: score.value for score in scores},
        "signatures": {score.name: score.signature for score in scores},
        "intervals": {score.name: score.interval for score in scores if score.interval},
        "cost": model.notes.get("cost"),
    }
    if labels:
        record["labels"] = [asdict(one) for one in results.of_labels]
    if confusion:
        classes, counts = confusion_of(results)
        record["confusion"] = {"labels": classes, "counts": counts.astype(int).tolist()}
    print_json(record)


def show_labels(scores: Sequence[LabelScore], title: str) -> None:
    """Precision, recall and F1 of each label, and the labels that were predicted instead."""
    columns = [title, *MEASURES, "number", "taken for"]
    print_table(
        columns,
        [
            [
                one.label,
                *(f"{value:.2f}" for value in (one.precision, one.recall, one.f1)),
                f"{one.count:,}",
                ", ".join(f"{label} ({count:,})" for label, count in one.taken_for[:MISTAKES]),
            ]
            for one in scores
        ],
        left=(0, len(columns) - 1),
    )


def confusion_of(results: TaskScores) -> Confusion:
    """Which labels are taken for which, where examples have one label each."""
    if results.confusion is None:
        raise BadInput("--confusion, --svg: entities have no confusion matrix; use --labels")
    return results.confusion


def show_confusion(confusion: Confusion, title: str) -> None:
    """The matrix, or of many labels the most frequent mistakes."""
    if len(confusion.classes) <= COLUMNS:
        counts = [[f"{count:,.0f}" if count else "·" for count in row] for row in confusion.counts]
        rows = [[name, *row] for name, row in zip(confusion.classes, counts, strict=True)]
        print_table([title, *confusion.classes], rows)
        return
    mistakes = [
        [one.gold, one.predicted, f"{one.number:,}", f"{100 * one.share:.1f}%"]
        for one in confusion.mistakes()[:COLUMNS]
    ]
    print_table([title, "predicted", "number", "share"], mistakes, left=(0, 1))


def draw_confusions(path: Path, title: str, tests: Mapping[str, TaskScores]) -> None:
    """Write the matrix of each test set; of several, their names are in those of the files."""
    for name, results in tests.items():
        file, heading = path, title
        if len(tests) > 1:
            file, heading = path.with_name(f"{path.stem}-{name}{path.suffix}"), f"{title}: {name}"
        write_page(file, partial(draw_confusion, heading, confusion_of(results)))


def show_scores(tables: Mapping[str, list[MetricScore]], model: Model) -> None:
    """Scores with their signatures, set by set, and the cost of training."""
    for name, scores in tables.items():
        for score in scores:
            OUT.print(f"{name}  {score}" if len(tables) > 1 else str(score), markup=False)
    if "cost" in model.notes:
        OUT.print(cost_line(model.notes["cost"]), markup=False)


def check_expected(
    expect: ExpectConfig, scores: Iterable[MetricScore], *, quiet: bool = False
) -> bool:
    """Whether the expected score is reached; prints the comparison unless ``quiet``."""
    value = next(score.value for score in scores if score.name.startswith(expect.metric))
    short = value - expect.score if expect.metric in LOWER else expect.score - value
    reached = short <= expect.tolerance
    if not quiet:
        OUT.print(
            f"expected: {expect.metric} {expect.score:g} ± {expect.tolerance:g} ({expect.source}); "
            f"measured {value:.2f}: {'reached' if reached else 'NOT reached'}",
            markup=False,
        )
    return reached
