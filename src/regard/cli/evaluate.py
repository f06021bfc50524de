"""``regard evaluate``: a model on the test set of a recipe, compared with what it expects."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from regard.api import Model, load
from regard.cli.console import DEVICE, JSON, MODEL, OUT, PRECISION, cost_line, note, print_json
from regard.cli.table import print_table
from regard.data.sources import DropCounts
from regard.ground.errors import BadInput
from regard.metrics.precision_recall import MEASURES, LabelScore
from regard.metrics.translation import MetricScore
from regard.tasks.task import TaskScores
from regard.training.recipe import Recipe, read, task_of
from regard.training.recipe_files import ExpectConfig, find

MISTAKES = 3  # that are shown of a label
Pairs = list[tuple[str, str, str]]  # where each stands, and its two texts

RECIPE = Annotated[str, typer.Argument(help="A recipe: a file, or a name from `recipes`.")]
SKIP_BAD = Annotated[bool, typer.Option("--skip-bad", help="Drop bad lines, and count them.")]
DATA = Annotated[
    Path, typer.Option(envvar="REGARD_DATA", help="The folder the recipe's files lie in.")
]


def evaluate(
    model: MODEL,
    recipe: RECIPE,
    data: DATA = Path(),
    interval: Annotated[
        bool, typer.Option("--interval", help="Add 95% bootstrap intervals to BLEU, chrF and TER.")
    ] = False,
    labels: Annotated[
        bool, typer.Option("--labels", help="Add how well each label is found.")
    ] = False,
    skip_bad: SKIP_BAD = False,
    as_json: JSON = False,
    device: DEVICE = None,
    precision: PRECISION = "auto",
) -> None:
    """Score a model on the test set of a recipe.

    A translator: BLEU, chrF and TER with their signatures. A classifier: accuracy, macro-averaged
    F1 and Matthews' correlation, or the correlation of numbers; a tagger: F1 of entities; answers:
    exact match and F1; all of these with intervals. --labels adds precision, recall and F1 of each
    label, and what it is taken for. Ends with exit code 1 if a score that the recipe expects is not
    reached.

    Example: regard evaluate runs/tour/model tour --data runs/tour/corpus
    """
    described = read(find(recipe))
    if labels and not task_of(described).names_labels:
        raise BadInput(f"--labels: {described.about.title} has no labels to tell apart")
    loaded = load(model, device, precision=precision)
    dropped = DropCounts() if skip_bad else None
    found = judged(loaded, described, data, dropped, with_interval=interval)
    if dropped:
        note(f"left out: {dropped}")
    if as_json:
        for name, one in found.items():
            print_json(_record(name, one, loaded, labels))
    else:
        show_scores({name: one.scores for name, one in found.items()}, loaded)
        for name, one in found.items() if labels else ():
            _show_labels(one.of_labels, name if len(found) > 1 else "label")
    expect = described.expect
    if expect is not None and not keeps(expect, found["test"].scores, quiet=as_json):
        raise typer.Exit(1)


def test_scores(
    model: Model, recipe: Recipe, data: Path, dropped: DropCounts | None = None
) -> dict[str, list[MetricScore]]:
    """All measures of a model on each test set of the recipe."""
    return {name: one.scores for name, one in judged(model, recipe, data, dropped).items()}


def judged(
    model: Model,
    recipe: Recipe,
    data: Path,
    dropped: DropCounts | None = None,
    *,
    with_interval: bool = False,
) -> dict[str, TaskScores]:
    """The same, and how well each label is found."""
    if recipe.data.test is None:
        raise BadInput("the recipe names no test set (data.test)")
    task = task_of(recipe)
    return {
        name: task.test_scores(model, files, data, dropped, with_interval=with_interval)
        for name, files in recipe.data.tests.items()
    }


def _record(name: str, found: TaskScores, model: Model, labels: bool) -> dict[str, Any]:
    scores = found.scores
    return {
        "set": name,
        **{score.name: score.value for score in scores},
        "signatures": {score.name: score.signature for score in scores},
        "intervals": {score.name: score.interval for score in scores if score.interval},
        "cost": model.notes.get("cost"),
        **({"labels": [asdict(one) for one in found.of_labels]} if labels else {}),
    }


def _show_labels(found: Sequence[LabelScore], title: str) -> None:
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
            for one in found
        ],
        left=(0, len(columns) - 1),
    )


def show_scores(tables: Mapping[str, list[MetricScore]], model: Model) -> None:
    """Scores with their signatures, set by set, and what the model cost."""
    for name, scores in tables.items():
        for score in scores:
            OUT.print(f"{name}  {score}" if len(tables) > 1 else str(score), markup=False)
    if "cost" in model.notes:
        OUT.print(cost_line(model.notes["cost"]), markup=False)


def keeps(expect: ExpectConfig, scores: Iterable[MetricScore], *, quiet: bool = False) -> bool:
    """Compare the scores with what is expected, and say how it went."""
    value = next(score.value for score in scores if score.name.startswith(expect.metric))
    short = value - expect.score if expect.metric == "TER" else expect.score - value
    kept = short <= expect.tolerance
    if not quiet:
        OUT.print(
            f"expected: {expect.metric} {expect.score:g} ± {expect.tolerance:g} ({expect.source}); "
            f"measured {value:.2f}: {'reached' if kept else 'NOT reached'}",
            markup=False,
        )
    return kept
