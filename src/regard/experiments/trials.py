"""One trial of a hyper-parameter search: one training run, or one for each of several seeds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from pathlib import Path
from statistics import fmean

from pydantic import TypeAdapter

from regard.core.errors import BadInput
from regard.experiments.notes import Listener, Note, Stop
from regard.experiments.training import train_run, with_train_keys
from regard.training.checkpoint import Checkpoints
from regard.training.distributed import World
from regard.training.loop.trainer import Diverged
from regard.training.recipe import Recipe, read
from regard.training.run_folder import RECIPE
from regard.training.search_space import SearchSpace, Trial

TRIALS = "trials.json"  # marks the folder of a search
DONE, DIVERGED, PRUNED = "done", "diverged", "pruned"


@dataclass(frozen=True)
class TrialResult:
    """Result of a trial: the best value of its dev metric, and the step of it.

    The value is None if the trial failed; ``state`` says how it ended. Of a trial with several
    seeds it is the mean of their ``values``; ``seed`` is the best of them.
    """

    folder: str
    settings: Trial
    metric: str
    value: float | None
    step: int
    state: str
    values: tuple[float, ...] = ()
    seed: int | None = None

    @property
    def run(self) -> Path:
        """The run of the best model, in the folder of the search."""
        return Path(self.folder) / ("" if self.seed is None else f"seed-{self.seed}")

    @property
    def order(self) -> tuple[bool, float]:
        """Sort key: the best first (the lowest loss, or the highest of other metrics)."""
        value = inf if self.value is None else self.value
        return self.value is None, value if self.metric == "loss" else -value


RESULTS = TypeAdapter(list[TrialResult])


@dataclass(frozen=True)
class TuningRun:
    """A search: its trials, where they run, and ``origin``, the request they are made of.

    With a ``sampler`` of Optuna, trials are chosen one by one, ``count`` of them; a ``pruner`` ends
    those early that are worse than others.
    """

    recipe: Path
    space: SearchSpace
    trials: Sequence[Trial]
    origin: Mapping[str, object]
    folder: Path
    data: Path
    world: World
    resume: bool = False
    skip_bad: bool = False
    budget_seconds: float = inf
    loggers: Sequence[str] = ()
    seeds: int | None = None
    seed: int = 0
    count: int = 0
    sampler: str | None = None
    pruner: str | None = None

    def recipes(self) -> list[Recipe]:
        """The recipe of each trial; all are checked."""
        return [*map(self.recipe_of, self.trials)]

    def recipe_of(self, trial: Trial) -> Recipe:
        """The recipe of a trial; a ladder is refused."""
        recipe = read(self.recipe, self.space.settings(trial))
        if recipe.rung:
            raise BadInput(f"{self.recipe}: a ladder has several models; tune the recipe of one")
        return recipe

    def name(self, number: int) -> str:
        """The folder of a trial, counted from 1."""
        return f"trial-{number:03d}"

    def runs(self, name: str, recipe: Recipe) -> dict[Path, Recipe]:
        """The recipes of the runs of a trial, by folder: one, or one of each seed."""
        folder = self.folder / name
        if self.seeds is None:
            return {folder: recipe}
        first = recipe.train.seed
        seeds = range(first, first + self.seeds)
        return {folder / f"seed-{seed}": with_train_keys(recipe, seed=seed) for seed in seeds}


def run_trial(
    search: TuningRun,
    name: str,
    trial: Trial,
    recipes: Mapping[Path, Recipe],
    *,
    goes_on: bool,
    on_event: Listener,
    stop: Stop | None,
) -> TrialResult:
    """Train the runs of a trial, by folder; one without a result ends the trial.

    With ``goes_on``, bad input is the result of the trial; else it is an error, as other trials may
    have it too.
    """
    results = list[TrialResult]()
    train = partial(_train_once, search, name, trial, on_event, stop)
    for folder, recipe in recipes.items():
        result = train(folder, recipe, goes_on or bool(results))
        if result.value is None or search.seeds is None:
            return result
        results.append(replace(result, seed=recipe.train.seed))
    values = tuple(value for result in results if (value := result.value) is not None)
    best = min(results, key=lambda result: result.order)
    return replace(best, value=fmean(values), values=values)


def _train_once(
    search: TuningRun,
    name: str,
    trial: Trial,
    on_event: Listener,
    stop: Stop | None,
    folder: Path,
    recipe: Recipe,
    goes_on: bool,
) -> TrialResult:
    """Train one run; an error of the first ends the search, as others may have it too."""
    metric = recipe.train.metric
    try:
        train_run(
            recipe,
            folder,
            world=search.world,
            resume=(folder / RECIPE).exists(),
            data=search.data,
            skip_bad=search.skip_bad,
            budget_seconds=search.budget_seconds,
            loggers=search.loggers,
            on_event=on_event,
            stop=stop,
        )
    except Diverged as error:
        on_event(Note(str(error), error=True))
        return TrialResult(name, trial, metric, None, error.progress.step, DIVERGED)
    except BadInput as error:
        if not goes_on:
            raise
        on_event(Note(str(error), error=True))
        return TrialResult(name, trial, metric, None, 0, f"failed: {error}")
    return result_of(folder, name, trial, metric, DONE)


def result_of(folder: Path, name: str, trial: Trial, metric: str, state: str) -> TrialResult:
    """Result of a run, from its last checkpoint."""
    checkpoints = Checkpoints(folder / "checkpoints")
    progress = checkpoints.progress(checkpoints.steps()[-1])
    value = progress.best
    if value is not None and metric == "loss":
        value = -value
    return TrialResult(name, trial, metric, value, progress.best_step, state)
