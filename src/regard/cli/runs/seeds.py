"""One recipe with several seeds: a table of means and standard deviations."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from regard.api import load
from regard.cli.io.console import OUT, cost_line, note, print_table
from regard.cli.runs.scores import check_expected, test_scores
from regard.data.files.fields import DropCounts
from regard.ground.errors import BadInput
from regard.ground.files import write_json
from regard.metrics.translation import MetricScore
from regard.training.distributed import World
from regard.training.recipe import Recipe
from regard.training.run import Run


@dataclass(frozen=True)
class Spread:
    """A metric on a test set, for every seed."""

    of: str
    name: str
    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Over all seeds."""
        return mean(self.values)

    @property
    def deviation(self) -> float:
        """The standard deviation of a sample (divided by the number of seeds - 1)."""
        return stdev(self.values)


def train_seeds(
    recipe: Recipe,
    count: int,
    folder: Path,
    world: World,
    train: Callable[[Recipe, Path], Run],
    data: Path,
    check: bool,
    skip_bad: bool = False,
) -> bool:
    """Train with each seed in its own folder and print the table.

    False if the expected score is to ``check`` and the mean does not reach it.
    """
    if recipe.rung:
        raise BadInput("--seeds: cannot be used with a ladder; choose a recipe without rungs")
    if recipe.data.test is None:
        raise BadInput("--seeds: needs a test set (data.test)")
    seeds = [recipe.train.seed + number for number in range(count)]
    tables, costs = [], []
    for seed in seeds:
        if world.is_leader:
            note(f"\nseed {seed}")
        run = train(with_seed(recipe, seed), folder / f"seed-{seed}")
        recipe = _with_precision(recipe, run)
        if world.is_leader:
            model = load(run.model_folder, str(world.device), precision="auto")
            tables.append(test_scores(model, recipe, data, DropCounts() if skip_bad else None))
            costs.append(model.notes["cost"])
        world.barrier()
    if not world.is_leader:
        return True
    spreads, cost = spreads_of(tables), _total_cost(costs)
    _show(seeds, spreads, cost)
    figures = [{**vars(one), "mean": one.mean, "deviation": one.deviation} for one in spreads]
    write_json(folder / "seeds.json", {"seeds": seeds, "measures": figures, "cost": cost})
    note(f"{folder / 'seeds.json'}: the same as JSON")
    means = [MetricScore(one.name, one.mean, "") for one in spreads if one.of == "test"]
    return not check or recipe.expect is None or check_expected(recipe.expect, means)


def with_seed(recipe: Recipe, seed: int) -> Recipe:
    """The same recipe with another seed."""
    train = recipe.train.model_copy(update={"seed": seed})
    return recipe.model_copy(update={"train": train})


def _with_precision(recipe: Recipe, run: Run) -> Recipe:
    """The same recipe with the precision that the first run chose: only seeds may differ."""
    checkpoints = run.job.checkpoints
    settings = checkpoints.progress(checkpoints.steps()[-1]).settings
    train = recipe.train.model_copy(update={"precision": settings["precision"]})
    return recipe.model_copy(update={"train": train})


def spreads_of(tables: Sequence[dict[str, list[MetricScore]]]) -> list[Spread]:
    """Every metric of every test set, from the scores of each seed."""
    return [
        Spread(of, score.name, tuple(table[of][number].value for table in tables))
        for of, scores in tables[0].items()
        for number, score in enumerate(scores)
    ]


def _total_cost(costs: Sequence[dict[str, float]]) -> dict[str, float]:
    """The cost of all runs; they have equally many parameters."""
    added = {name: sum(cost[name] for cost in costs) for name in costs[0]}
    return {**added, "parameters": costs[0]["parameters"]}


def _show(seeds: Sequence[int], spreads: Sequence[Spread], cost: dict[str, Any]) -> None:
    several = len({one.of for one in spreads}) > 1
    rows = []
    for one in spreads:
        name = f"{one.of}  {one.name}" if several else one.name
        numbers = (one.mean, one.deviation, *one.values)
        rows.append([name, *(f"{number:.2f}" for number in numbers)])
    print_table(["measure", "mean", "deviation", *(f"seed {seed}" for seed in seeds)], rows)
    OUT.print(f"all {len(seeds)} runs, {cost_line(cost)}", markup=False)
