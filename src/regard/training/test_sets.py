"""The test sets of a recipe: a trained model is scored on each."""

from pathlib import Path
from typing import Any

from regard.data.files.fields import DropCounts
from regard.tasks.task import TaskScores
from regard.training.recipe import Recipe, task_of


def score_tests(
    model: Any,
    recipe: Recipe,
    data: Path,
    dropped: DropCounts | None = None,
    *,
    with_interval: bool = False,
) -> dict[str, TaskScores]:
    """The scores of a model on each test set, by its name; those of some tasks have intervals."""
    task = task_of(recipe)
    interval = with_interval or task.has_intervals
    scores = {}
    for name, files in recipe.data.tests.items():
        examples = task.read(files, data, dropped)
        files.require(examples, name, task.unit)
        scores[name] = task.test_scores(model, examples, interval)
    return scores
