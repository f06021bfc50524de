"""One recipe with several seeds: what each came to, and one table of means and spreads."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from regard.api import load
from regard.cli.console import OUT, cost_line, note
from regard.cli.evaluate import keeps, test_scores
from regard.cli.table import print_table
from regard.data.sources import DropCounts
from regard.ground.errors import BadInput
from regard.ground.files import write_json
from regard.metrics.translation import MetricScore
from regard.training.distributed import World
from regard.training.recipe import Recipe
from regard.training.run import Run


@dataclass(frozen=True)
class Spread:
    """A measure on a test set, of every seed."""

    of: str
    name: str
    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Over all seeds."""
        return mean(self.values)

    @property
    def deviation(self) -> float:
        """The standard deviation of a sample: over one seed less than there are."""
        return stdev(self.values)


def sow(
    recipe: Recipe,
    count: int,
    folder: Path,
    world: World,
    train: Callable[[Recipe, Path], Run],
    data: Path,
    promised: bool,
    skip_bad: bool = False,
) -> bool:
    """Train with each seed in a folder of its own, print the table; false if a promise broke."""
    if recipe.rung:
        raise BadInput("--seeds: a ladder trains each rung once; choose a recipe without rungs")
    if recipe.data.test is None:
        raise BadInput("--seeds: needs a test set (data.test) to compare by")
    seeds = [recipe.train.seed + number for number in range(count)]
    tables, costs = [], []
    for seed in seeds:
        if world.is_leader:
            note(f"\nseed {seed}")
        run = train(with_seed(recipe, seed), folder / f"seed-{seed}")
        recipe = _as_precise(recipe, run)
        if world.is_leader:
            model = load(run.model_folder, str(world.device), precision="auto")
            tables.append(test_scores(model, recipe, data, DropCounts() if skip_bad else None))
            costs.append(model.notes["cost"])
        world.barrier()
    if not world.is_leader:
        return True
    spreads, cost = spreads_of(tables), _together(costs)
    _show(seeds, spreads, cost)
    figures = [{**vars(one), "mean": one.mean, "deviation": one.deviation} for one in spreads]
    write_json(folder / "seeds.json", {"seeds": seeds, "measures": figures, "cost": cost})
    note(f"{folder / 'seeds.json'}: the same in plain numbers")
    means = [MetricScore(one.name, one.mean, "") for one in spreads if one.of == "test"]
    return not promised or recipe.expect is None or keeps(recipe.expect, means)


def with_seed(recipe: Recipe, seed: int) -> Recipe:
    """The same recipe with another seed."""
    train = recipe.train.model_copy(update={"seed": seed})
    return recipe.model_copy(update={"train": train})


def _as_precise(recipe: Recipe, run: Run) -> Recipe:
    """The same recipe with the precision that a run chose: seeds must differ in nothing else."""
    checkpoints = run.job.checkpoints
    settings = checkpoints.progress(checkpoints.steps()[-1]).settings
    train = recipe.train.model_copy(update={"precision": settings["precision"]})
    return recipe.model_copy(update={"train": train})


def spreads_of(tables: Sequence[dict[str, list[MetricScore]]]) -> list[Spread]:
    """Every measure of every test set, from the scores of each seed."""
    return [
        Spread(of, score.name, tuple(table[of][number].value for table in tables))
        for of, scores in tables[0].items()
        for number, score in enumerate(scores)
    ]


def _together(costs: Sequence[dict[str, float]]) -> dict[str, float]:
    """What all runs cost; they have equally many parameters."""
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
