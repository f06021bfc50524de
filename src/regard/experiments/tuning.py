"""The trials of a hyper-parameter search: each is a training run in its own folder."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import inf
from pathlib import Path

from pydantic import ValidationError

from regard.core.checks import check_known
from regard.core.errors import ArgumentName, BadInput
from regard.core.files import read_json, remove, sweep_folder, write_json
from regard.core.lock import LOCK, is_vacant, lock_folder, lock_vacant
from regard.experiments.notes import Listener, Note, Stop, ignore
from regard.experiments.result import (
    Column,
    ExperimentResult,
    OutputTable,
    number_column,
    text_column,
)
from regard.experiments.training import in_one_precision
from regard.experiments.trials import RESULTS, TRIALS, TrialResult, TuningRun, run_trial
from regard.experiments.tuning_study import DATABASE, PRUNERS, SAMPLERS, import_optuna, run_study
from regard.training.distributed import World
from regard.training.metrics_log import check_loggers
from regard.training.recipe.overrides import Settings
from regard.training.recipe_files import find
from regard.training.search_space import SearchSpace


@dataclass(frozen=True)
class Tuning(ExperimentResult):
    """Trials of a search in its ``folder``, the best first."""

    folder: Path
    trials: Sequence[TrialResult]

    @property
    def best(self) -> TrialResult:
        """The best trial; it has no value if all have failed."""
        return self.trials[0]

    @property
    def model(self) -> Path:
        """The folder of the best model."""
        return self.folder / self.best.run / "model"

    def tables(self) -> list[OutputTable]:
        names, metric = list(self.best.settings), self.best.metric
        seeded = any(trial.values for trial in self.trials)
        columns = [
            text_column("trial"),
            *map(Column, names),
            number_column(f"dev {metric}", ".4g", missing="–"),
            *[text_column("of seeds")] * seeded,
            number_column("step", ","),
            text_column("state"),
        ]
        rows = [
            (
                trial.folder,
                *(str(trial.settings[name]) for name in names),
                trial.value,
                *[" ".join(f"{value:.4g}" for value in trial.values)] * seeded,
                trial.step,
                trial.state,
            )
            for trial in self.trials
        ]
        return [OutputTable(columns, rows)]

    def records(self) -> Iterator[Mapping[str, object]]:
        return map(vars, self.trials)


def tune(
    recipe: str | Path,
    settings: Settings,
    data: str | Path = Path(),
    out: str | Path | None = None,
    *,
    trials: int | None = None,
    seed: int = 0,
    seeds: int | None = None,
    sampler: str | None = None,
    pruner: str | None = None,
    resume: bool = False,
    skip_bad: bool = False,
    budget: float = inf,
    loggers: Sequence[str] = (),
    device: str | None = None,
    on_event: Listener = ignore,
    stop: Stop | None = None,
) -> Tuning:
    """Train a recipe with several values of its settings; the trials, the best first.

    Settings are a table such as {"batches.rows": [16, 32], "optimiser.rate": "1e-4..1e-2:log"}, or
    texts as of the command line: lists of values, or ranges; one value holds for all trials.
    Without ``trials`` all combinations are tried; with a number of trials, values are drawn at
    random by ``seed``. Trials are judged by the development set, with ``seeds`` by the mean over
    that many runs each.

    A ``sampler`` of Optuna chooses the values of each trial by the results of earlier ones ("tpe",
    "gp") or evenly ("qmc"), and a ``pruner`` ("median", "halving", "hyperband") ends trials early
    that are worse than others by the same step. Several processes that ``resume`` such a search
    share its trials.

    ``out``, by default runs/RECIPE-tune, has a folder for each trial; with ``resume`` a search goes
    on there. ``budget`` is the number of seconds of each run.
    """
    path = find(str(recipe))
    texts = _texts_of(settings)
    space = SearchSpace.of(texts)
    chosen = {"sampler": sampler, "pruner": pruner}
    _check_study(trials, seeds, **chosen)
    planned = space.grid() if trials is None else space.random(trials, seed)
    origin = {"settings": texts, "seed": None if trials is None else seed, "seeds": seeds}
    search = TuningRun(
        recipe=path,
        space=space,
        trials=planned,
        origin=origin | {name: value for name, value in chosen.items() if value is not None},
        seed=seed,
        count=len(planned) if sampler is None or trials is None else trials,
        sampler=sampler,
        pruner=pruner,
        folder=Path("runs") / f"{path.stem}-tune" if out is None else Path(out),
        data=Path(data),
        resume=resume,
        skip_bad=skip_bad,
        budget_seconds=budget,
        loggers=check_loggers(loggers),
        seeds=seeds,
        world=World.join(device),
    )
    if search.world.size > 1:
        raise BadInput("tune runs in one process; start it without torchrun")
    if sampler is not None or pruner is not None:
        return run_shared_trials(search, on_event=on_event, stop=stop)
    return run_trials(search, on_event=on_event, stop=stop)


def _check_study(
    trials: int | None, seeds: int | None, sampler: str | None, pruner: str | None
) -> None:
    """Check the names of a sampler and a pruner of Optuna, and what they go with."""
    for name, value, known in (("sampler", sampler, SAMPLERS), ("pruner", pruner, PRUNERS)):
        if value is not None:
            check_known(name, value, known)
    if sampler is not None and trials is None:
        raise BadInput("needs a number of trials", key="sampler")
    if pruner is not None and seeds is not None:
        raise BadInput("cannot be used with several seeds", key="pruner")


def _texts_of(settings: Settings) -> list[str]:
    """Settings as texts: {"batches.rows": [16, 32]} is "batches.rows=16,32"."""
    if not isinstance(settings, Mapping):
        return [*settings]
    values = {
        name: ",".join(map(str, value)) if isinstance(value, list | tuple) else value
        for name, value in settings.items()
    }
    return [f"{name}={value}" for name, value in values.items()]


def run_shared_trials(
    search: TuningRun, *, on_event: Listener = ignore, stop: Stop | None = None
) -> Tuning:
    """Train trials of a study of Optuna; other processes may train others of them."""
    search.recipe_of(search.trials[0])
    _check_vacant(search)
    import_optuna()
    if not search.resume:
        with lock_vacant(search.folder):
            _write(search, [])
    _earlier_results(search)

    def write(results: Mapping[str, TrialResult]) -> None:
        _write(search, [*results.values()])

    try:
        results = run_study(search, on_event, stop, write)
    except BadInput:
        if {path.name for path in search.folder.iterdir()} <= {TRIALS, LOCK, DATABASE}:
            for name in (TRIALS, DATABASE):
                (search.folder / name).unlink(missing_ok=True)
            lock_folder(search.folder).discard()
        raise
    return _ranked(search, results.values())


def _check_vacant(search: TuningRun) -> None:
    """Refuse a folder with files, unless the search goes on in it."""
    if not search.resume and not is_vacant(search.folder):
        remedy = ("use ", ArgumentName("resume"), ", or choose another folder")
        raise BadInput(f"{search.folder}: is not empty", remedy=remedy)


def _ranked(search: TuningRun, results: Iterable[TrialResult]) -> Tuning:
    return Tuning(search.folder, sorted(results, key=lambda result: result.order))


def run_trials(
    search: TuningRun, *, on_event: Listener = ignore, stop: Stop | None = None
) -> Tuning:
    """Train all trials that have no result yet."""
    recipes = search.recipes()
    _check_vacant(search)
    with lock_folder(search.folder) as lock:
        earlier = _earlier_results(search)
        if lock.held:
            sweep_folder(search.folder)
        _write(search, list(earlier.values()))
        names = [search.name(number) for number in range(1, len(recipes) + 1)]
        runs = [search.runs(name, recipe) for name, recipe in zip(names, recipes, strict=True)]
        every = {out: recipe for of_trial in runs for out, recipe in of_trial.items()}
        settled = dict(zip(every, in_one_precision(every, search.world), strict=True))
        for name, trial, of_trial in zip(names, search.trials, runs, strict=True):
            if name in earlier:
                continue
            values = "  ".join(f"{key}={value}" for key, value in trial.items())
            on_event(Note(f"\n{name} of {len(recipes)}: {values}"))
            try:
                earlier[name] = run_trial(
                    search,
                    name,
                    trial,
                    {out: settled[out] for out in of_trial},
                    goes_on=bool(earlier),
                    on_event=on_event,
                    stop=stop,
                )
            except BadInput:
                if {path.name for path in search.folder.iterdir()} <= {TRIALS, LOCK}:
                    remove(search.folder / TRIALS)
                    lock.discard()
                raise
            _write(search, list(earlier.values()))
    return _ranked(search, (earlier[name] for name in names))


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
