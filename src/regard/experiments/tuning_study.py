"""Trials that Optuna chooses or ends early: a study that several processes share (extra ``tune``).

The study is ``trials.db``, an SQLite database in the folder of the search. A process asks it for
the next trial and trains it; a trial whose process was killed goes on in the next one that starts.
Each trial is chosen by a sampler of its own, seeded by the seed of the search and the number of the
trial, so that a search of one process that is resumed has the trials of one that was not.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from regard.core.errors import BadInput
from regard.core.lock import FolderLock, lock_folder
from regard.experiments.notes import Listener, Note, Stop, Stopped
from regard.experiments.training import in_one_precision
from regard.experiments.trials import PRUNED, RESULTS, TrialResult, TuningRun, result_of, run_trial
from regard.training.loop.events import DevEvent, Event
from regard.training.search_space import Trial

if TYPE_CHECKING:
    import optuna

SAMPLERS = {  # CMA-ES is left out: its state in the database is a pickle
    "tpe": "TPESampler",
    "gp": "GPSampler",
    "qmc": "QMCSampler",
}
PRUNERS = {
    "median": "MedianPruner",
    "halving": "SuccessiveHalvingPruner",
    "hyperband": "HyperbandPruner",
}
DATABASE, STUDY, RESULT = "trials.db", "trials", "result"
PATIENCE = 60.0  # seconds to wait for another process that writes to the database


class TuningStudy:
    """Optuna's study of a search: its trials by number, chosen by a sampler or planned."""

    def __init__(self, search: TuningRun):
        self.search, self.optuna = search, import_optuna()
        place = f"sqlite:///{(search.folder / DATABASE).resolve()}"
        arguments = {"connect_args": {"timeout": PATIENCE}}
        try:
            self.storage = self.optuna.storages.RDBStorage(place, engine_kwargs=arguments)
            self.study = self.optuna.create_study(
                storage=self.storage,
                study_name=STUDY,
                direction="maximize",
                pruner=self._pruner(),
                load_if_exists=True,
            )
        except Exception as error:  # of SQLAlchemy, alembic or Optuna, by what is damaged
            raise BadInput(
                f"{search.folder / DATABASE}: is no database of Optuna: {error}"
            ) from None

    def close(self) -> None:
        """Close the database."""
        self.storage.remove_session()
        self.storage.engine.dispose()

    def results(self) -> dict[str, TrialResult]:
        """Results of all trials that have ended, by name, in order."""
        records = [trial.user_attrs.get(RESULT) for trial in self.study.get_trials(deepcopy=False)]
        ended = RESULTS.validate_python([record for record in records if record is not None])
        return {result.folder: result for result in ended}

    def open_trials(self) -> Iterator[tuple["optuna.Trial", FolderLock]]:
        """Trials to train, each locked: those that no process trains any longer, then new ones."""
        running = self.optuna.trial.TrialState.RUNNING
        for trial in self.study.get_trials(deepcopy=False, states=(running,)):
            if lock := self._lock(trial.number):
                yield self.optuna.Trial(self.study, trial._trial_id), lock
        while (number := len(self.study.get_trials(deepcopy=False))) < self.search.count:
            self.study.sampler = self._sampler(number)
            trial = self.study.ask()
            lock = self._lock(trial.number) if trial.number < self.search.count else None
            if lock:
                yield trial, lock
            else:  # other processes have asked for the last ones
                self.study.tell(trial, state=self.optuna.trial.TrialState.FAIL)

    def values_of(self, trial: "optuna.Trial") -> Trial:
        """The values of a trial as texts: as planned, or chosen by the sampler."""
        if self.search.sampler is None:
            return self.search.trials[trial.number]
        return {each.name: each.suggest(trial) for each in self.search.space.dimensions}

    def tell(self, trial: "optuna.Trial", result: TrialResult) -> None:
        """Store the result of a trial."""
        states = self.optuna.trial.TrialState
        trial.set_user_attr(RESULT, asdict(result))
        if result.value is None:
            self.study.tell(trial, state=states.FAIL)
        elif result.state == PRUNED:
            self.study.tell(trial, state=states.PRUNED)
        else:
            loss = result.metric == "loss"
            self.study.tell(trial, -result.value if loss else result.value)

    def _lock(self, number: int) -> FolderLock | None:
        """The lock of the folder of a trial; None if another process trains it."""
        try:
            return lock_folder(self.search.folder / self.search.name(number + 1))
        except BadInput:
            return None

    def _sampler(self, number: int) -> "optuna.samplers.BaseSampler":
        if self.search.sampler is None:
            return self.optuna.samplers.RandomSampler(seed=0)  # is not asked
        kind = getattr(self.optuna.samplers, SAMPLERS[self.search.sampler])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", self.optuna.exceptions.ExperimentalWarning)
            if self.search.sampler == "qmc":  # all trials are of one sequence
                return kind(seed=self.search.seed, scramble=True, warn_independent_sampling=False)
            return kind(seed=1_000_003 * self.search.seed + number)

    def _pruner(self) -> "optuna.pruners.BasePruner":
        name = self.search.pruner
        if name is None:
            return self.optuna.pruners.NopPruner()
        return getattr(self.optuna.pruners, PRUNERS[name])()


class PruningStop(Stop):
    """Request to end a trial that is worse than others, or the search; it hears of evaluations."""

    def __init__(self, trial: "optuna.Trial", own: Stop | None, on_event: Listener):
        super().__init__()
        self.trial, self.own, self.on_event = trial, own or Stop(), on_event
        self.pruned = False
        stored = trial.study.get_trials(deepcopy=False)[trial.number]
        self._known = {*stored.intermediate_values}

    def __call__(self) -> bool:
        self.number = self.own.number
        return self.own() or self.pruned

    def noticed(self) -> AbstractContextManager[object]:
        return self.own.noticed()

    def listen(self, event: Note | Event) -> None:
        """Pass an event on, and report an evaluation to the study."""
        self.on_event(event)
        if not isinstance(event, DevEvent):
            return
        step = event.progress.step
        if step not in self._known:  # a resumed run may evaluate a step again
            self.trial.report(event.verdict.value, step)
        self.pruned = self.trial.should_prune()


def run_study(
    search: TuningRun,
    on_event: Listener,
    stop: Stop | None,
    write: Callable[[Mapping[str, TrialResult]], None],
) -> dict[str, TrialResult]:
    """Train trials until the study has all; returns the results, which are written one by one."""
    with closing(TuningStudy(search)) as study:
        for trial, lock in study.open_trials():
            with lock:
                try:
                    result = _run(study, trial, on_event, stop)
                except BadInput:  # other exceptions leave the trial to be resumed
                    study.study.tell(trial, state=study.optuna.trial.TrialState.FAIL)
                    lock.discard()
                    raise
                study.tell(trial, result)
            write(study.results())
        return study.results()


def _run(
    study: TuningStudy, trial: "optuna.Trial", on_event: Listener, stop: Stop | None
) -> TrialResult:
    search = study.search
    values, name = study.values_of(trial), search.name(trial.number + 1)
    runs = search.runs(name, search.recipe_of(values))
    recipes = dict(zip(runs, in_one_precision(runs, search.world), strict=True))
    listed = "  ".join(f"{key}={value}" for key, value in values.items())
    on_event(Note(f"\n{name} of {search.count}: {listed}"))
    watch = PruningStop(trial, stop, on_event)
    goes_on = bool(study.results())
    try:
        return run_trial(
            search, name, values, recipes, goes_on=goes_on, on_event=watch.listen, stop=watch
        )
    except Stopped:
        if not watch.pruned:
            raise
        ((folder, recipe),) = runs.items()
        on_event(Note(f"{name}: ended early, as other trials were better by this step"))
        return result_of(folder, name, values, recipe.train.metric, PRUNED)


def import_optuna() -> Any:
    """Optuna, without its own lines on standard error."""
    try:
        import optuna
    except ImportError:
        remedy = "install it with: pip install 'regard[tune]'"
        raise BadInput("Optuna is not installed", remedy=remedy) from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna
