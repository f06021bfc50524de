"""The trials of a hyper-parameter search: each is a training run in its own folder."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import inf
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from regard.cli.io.console import complain, note
from regard.cli.training_runs import train_run
from regard.ground.errors import BadInput
from regard.ground.files import read_json, remove, sweep_folder, write_json
from regard.ground.lock import LOCK, is_vacant, lock_folder
from regard.training.checkpoint import Checkpoints
from regard.training.distributed import World
from regard.training.loop.trainer import Diverged
from regard.training.recipe import Recipe, read
from regard.training.run_folder import RECIPE
from regard.training.search_space import SearchSpace, Trial

TRIALS = "trials.json"  # marks the folder of a search
DONE, DIVERGED = "done", "diverged"


@dataclass(frozen=True)
class TrialResult:
    """Result of a trial: the best value of its dev metric, and the step of it.

    The value is None if the trial failed; ``state`` says how it ended.
    """

    folder: str
    settings: Trial
    metric: str
    value: float | None
    step: int
    state: str

    @property
    def order(self) -> tuple[bool, float]:
        """Sort key: the best first (the lowest loss, or the highest of other metrics)."""
        value = inf if self.value is None else self.value
        return self.value is None, value if self.metric == "loss" else -value


RESULTS = TypeAdapter(list[TrialResult])


@dataclass(frozen=True)
class TuningRun:
    """A search: its trials, where they run, and ``origin``, the request they are made of."""

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

    def recipes(self) -> list[Recipe]:
        """The recipe of each trial; all are checked."""
        recipes = [read(self.recipe, self.space.settings(trial)) for trial in self.trials]
        if recipes[0].rung:
            raise BadInput(f"{self.recipe}: a ladder has several models; tune the recipe of one")
        return recipes

    def name(self, number: int) -> str:
        """The folder of a trial, counted from 1."""
        return f"trial-{number:03d}"


def run_trials(search: TuningRun) -> list[TrialResult]:
    """Train all trials that have no result yet; returns the results, the best first."""
    recipes = search.recipes()
    if not search.resume and not is_vacant(search.folder):
        raise BadInput(f"{search.folder}: is not empty; use --resume, or choose another folder")
    with lock_folder(search.folder) as lock:
        earlier = _earlier_results(search)
        if lock.held:
            sweep_folder(search.folder)
        _write(search, list(earlier.values()))
        names = [search.name(number) for number in range(1, len(recipes) + 1)]
        for name, trial, recipe in zip(names, search.trials, recipes, strict=True):
            if name in earlier:
                continue
            values = "  ".join(f"{key}={value}" for key, value in trial.items())
            note(f"\n{name} of {len(recipes)}: {values}")
            try:
                earlier[name] = _run_trial(search, name, trial, recipe, bool(earlier))
            except BadInput:
                if {path.name for path in search.folder.iterdir()} <= {TRIALS, LOCK}:
                    remove(search.folder / TRIALS)
                    lock.discard()
                raise
            _write(search, list(earlier.values()))
    return sorted((earlier[name] for name in names), key=lambda result: result.order)


def _run_trial(
    search: TuningRun, name: str, trial: Trial, recipe: Recipe, goes_on: bool
) -> TrialResult:
    """Train one trial; an error of the first trial ends the search, as others may have it too."""
    folder, metric = search.folder / name, recipe.train.metric
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
        )
    except Diverged as error:
        complain(str(error))
        return TrialResult(name, trial, metric, None, error.progress.step, DIVERGED)
    except BadInput as error:
        if not goes_on:
            raise
        complain(str(error))
        return TrialResult(name, trial, metric, None, 0, f"failed: {error}")
    checkpoints = Checkpoints(folder / "checkpoints")
    progress = checkpoints.progress(checkpoints.steps()[-1])
    value = progress.best
    if value is not None and metric == "loss":
        value = -value
    return TrialResult(name, trial, metric, value, progress.best_step, DONE)


def _earlier_results(search: TuningRun) -> dict[str, TrialResult]:
    """Results of a search that is resumed; a search of other values is refused."""
    path = search.folder / TRIALS
    if not path.exists():
        if search.resume and not is_vacant(search.folder):
            raise BadInput(f"{search.folder}: is not the folder of a search: it has no {TRIALS}")
        return {}
    stored = read_json(path)
    if {key: stored.get(key) for key in search.origin} != dict(search.origin):
        raise BadInput(
            f"{search.folder}: was started with other values or another seed; choose a new folder"
        )
    try:
        results = RESULTS.validate_python(stored.get("trials"))
    except ValidationError:
        raise BadInput(f"{path}: damaged (trials)") from None
    return {result.folder: result for result in results}


def _write(search: TuningRun, results: Sequence[TrialResult]) -> None:
    write_json(search.folder / TRIALS, {**search.origin, "trials": [*map(asdict, results)]})
