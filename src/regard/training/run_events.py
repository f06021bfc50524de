"""Training from a recipe and data, in memory or files, to a trained folder, event by event."""

import re
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from regard.core.checks import check_whole, listed
from regard.core.errors import BadInput, did_you_mean, shown
from regard.core.keywords import check_keywords
from regard.data.data_tables import MemoryConfig
from regard.data.readers.fields import DropCounts, Dropped
from regard.models.encoder_decoder import ModelFacts
from regard.models.folders import folder as folders
from regard.tasks.components import Runner
from regard.tasks.task import TaskScores
from regard.training.checkpoint import RunProgress
from regard.training.distributed import World
from regard.training.loop import train as train_loop
from regard.training.loop.events import Event, ScoreEvent
from regard.training.loop.trainer import Diverged
from regard.training.metrics_log import MetricsLog, OpenLoggers, check_loggers
from regard.training.recipe import Recipe, make_recipe, task_of
from regard.training.recipe.overrides import Settings
from regard.training.recipe_files import find, parse_tables, read_tables
from regard.training.run import Run, Watcher, prepare

AnyRecipe = str | Path | Mapping[str, object] | Recipe
AnyData = str | Path | Mapping[str, Iterable[object] | int]
TRAIN, DEV, TEST, MORE = SPLITS = ("train", "dev", "test", "more_tests")


@dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """Options of a training run, besides its recipe, its data and its folder: see ``train``."""

    settings: Settings
    facts: ModelFacts | None
    device: str | None
    resume: bool
    overwrite: bool
    skip_bad: bool
    budget: float
    loggers: Iterable[str]
    watch: Mapping[str, Watcher] | None


@dataclass(frozen=True)
class DescribedRun:
    """A run of training: what is trained, where it goes, the folder of the data, and options."""

    recipe: Recipe
    folder: Path
    data: Path
    options: TrainingOptions

    def events(self) -> Generator[Event, None, None]:
        """Train, and yield the events."""
        options = self.options
        world = World.join(options.device, self.recipe.distributed.timeout)
        progress = RunProgress()
        with world.together(GeneratorExit, Diverged):
            run = prepare(
                self.recipe,
                self.folder,
                world,
                data=self.data,
                resume=options.resume,
                overwrite=options.overwrite,
                skip_bad=options.skip_bad,
                budget_seconds=options.budget,
                watch=options.watch or {},
            )
            try:
                for event in run_events(run, resume=options.resume, loggers=[*options.loggers]):
                    progress = event.progress
                    if event.is_last and world.is_leader:
                        run.finish(progress)
                        yield from _score_events(run, progress, self)
                    yield event
            except KeyboardInterrupt:
                if world.is_leader:
                    run.keep_best(progress)
                raise
            finally:
                run.release()


@check_keywords
def train_events(
    recipe: AnyRecipe,
    data: AnyData = Path(),
    out: str | Path | None = None,
    *,
    settings: Settings = (),
    facts: ModelFacts | None = None,
    device: str | None = None,
    resume: bool = False,
    overwrite: bool = False,
    skip_bad: bool = False,
    budget: float = float("inf"),
    loggers: Iterable[str] = (),
    watch: Mapping[str, Watcher] | None = None,
) -> Generator[Event, None, None]:
    """Train as ``train`` does, and yield each event when it happens; nothing is printed.

    The run begins when the first event is read, and is over after the last one. To end it early,
    leave the loop: it can be continued from its last checkpoint (``resume``).
    """
    options = TrainingOptions(
        settings=settings,
        facts=facts,
        device=device,
        resume=resume,
        overwrite=overwrite,
        skip_bad=skip_bad,
        budget=budget,
        loggers=loggers,
        watch=watch,
    )
    return described_run(recipe, data, out, options).events()


def described_run(
    recipe: AnyRecipe, data: AnyData, out: str | Path | None, options: TrainingOptions
) -> "DescribedRun":
    """A run whose recipe and names are checked."""
    tables, name = _tables_of(recipe)
    root = Path()
    if isinstance(data, Mapping):
        tables["data"] = _data_tables(data, tables.get("data"))
    elif isinstance(data, str | Path):
        root = Path(data)
    else:
        raise BadInput(f"data must be a folder, or examples by name, not {shown(data)}")
    parsed = make_recipe(tables, name, options.settings)
    if parsed.rung:
        raise BadInput(f"{name}: a ladder trains several models; train the recipe of one of them")
    if options.facts is not None:
        model = parsed.model.with_facts(options.facts)
        parsed = parsed.model_copy(update={"model": model})
    folder = Path("runs") / Path(name).stem if out is None else Path(out)
    watch, loggers = check_watch(options.watch), check_loggers(options.loggers)
    return DescribedRun(parsed, folder, root, replace(options, watch=watch, loggers=loggers))


def check_watch(watch: Mapping[str, Watcher] | None) -> Mapping[str, Watcher]:
    """Functions that report on a model in training, by names that files may have."""
    if not isinstance(watch or {}, Mapping):
        raise BadInput(f"watch: give a dictionary of functions by name, not {shown(watch)}")
    for name, report in (watch or {}).items():
        if not isinstance(name, str) or not re.fullmatch(r"[\w-]+", name):
            raise BadInput(f"watch: {shown(name)} is not a name of letters, digits, - and _")
        if not callable(report):
            raise BadInput(f"watch[{name!r}]: give a function, not {shown(report)}")
    return watch or {}


def run_events(run: Run, *, resume: bool = False, loggers: Sequence[str] = ()) -> Iterator[Event]:
    """Yield the events of a prepared run, which the leader writes to its log and its loggers.

    If the run diverges, its best model so far is written before the error is raised.
    """
    log: MetricsLog | None = None
    world, succeeded = run.job.world, False
    try:
        for event in train_loop(run.job, resume=resume):
            if log is None and world.is_leader:  # at the first event
                log = _open_log(run, event.progress.step, loggers)
            if log is not None:
                log.write(event)
            yield event
        succeeded = True
    except Diverged as error:
        saved = run.keep_best(error.progress) if world.is_leader else ""
        world.barrier()
        raise Diverged(f"{error}; {saved}", error.progress) from None
    finally:
        if log is not None and log.loggers is not None:
            log.loggers.close(succeeded)


def _open_log(run: Run, after_step: int, loggers: Sequence[str]) -> MetricsLog:
    recipe = run.job.recipe.model_dump(mode="json", serialize_as_any=True)
    opened = OpenLoggers(loggers, run.out, recipe, after_step)
    return MetricsLog(run.out, after_step=after_step, loggers=opened)


def _score_events(run: Run, progress: RunProgress, described: DescribedRun) -> Iterator[ScoreEvent]:
    """The scores of the trained model on each test set of the recipe."""
    recipe = run.job.recipe
    if not recipe.data.tests:
        return
    model = Runner(folders.read(run.model_folder, run.job.world.device), "auto")
    dropped = DropCounts() if described.options.skip_bad else None
    for name, results in score_tests(model, recipe, described.data, dropped).items():
        yield ScoreEvent(progress, name, tuple(results.scores))


def _tables_of(recipe: AnyRecipe) -> tuple[dict[str, object], str]:
    """The tables of a recipe, unchecked, and its name."""
    if isinstance(recipe, Recipe):
        tables = recipe.model_dump(exclude_unset=True, serialize_as_any=True)
        return tables, _name(recipe.about.title)
    if isinstance(recipe, Mapping) or (isinstance(recipe, str) and re.search(r"[\n=]", recipe)):
        tables = parse_tables(recipe, "recipe")
        about = tables.get("about")
        return tables, _name(about.get("title") if isinstance(about, dict) else None)
    if not isinstance(recipe, str | Path):
        raise BadInput(f"recipe must be a name, a path, a text or a table, not {shown(recipe)}")
    path = find(str(recipe))
    return read_tables(path), str(path)


def recipe_of(recipe: AnyRecipe, settings: Settings = ()) -> Recipe:
    """The recipe of a name, a path, a text or tables, with settings laid over it."""
    if isinstance(recipe, Recipe) and not settings:
        return recipe
    return make_recipe(*_tables_of(recipe), settings)


def name_of_recipe(recipe: AnyRecipe) -> str:
    """The name, path or title of a recipe, after which its folder is called."""
    return _tables_of(recipe)[1]


def _name(title: object) -> str:
    return re.sub(r"\W+", "-", str(title or "").lower()).strip("-") or "recipe"


def _data_tables(data: Mapping[str, Any], before: object) -> dict[str, object]:
    """The table ``data`` with examples in memory; keys that name no file are kept."""
    before = before if isinstance(before, dict) else {}
    unchanged = {key: before[key] for key in ("longest_characters",) if key in before}
    for name in data:
        if name not in SPLITS:
            raise BadInput(f"data: no set is called {shown(name)}{did_you_mean(str(name), SPLITS)}")
    if TRAIN not in data:
        raise BadInput("data: give examples under 'train'")
    sets = {
        name: {"held_out": check_whole("data['dev']", examples, 1)}
        if name == DEV and isinstance(examples, int)
        else MemoryConfig.of(f"data[{name!r}]", listed(examples, "examples"))
        for name, examples in data.items()
        if name != MORE
    }
    dev = before.get(DEV)
    if DEV not in data and isinstance(dev, dict) and "held_out" in dev:
        sets[DEV] = dev
    if DEV not in sets:
        raise BadInput(
            "data: give examples under 'dev', or the number of examples of 'train' to hold out"
        )
    return unchanged | sets | {MORE: _more_tests(data.get(MORE, {}))}


def _more_tests(tests: object) -> dict[str, MemoryConfig]:
    """Further test sets, by the names that the caller gave."""
    if not isinstance(tests, Mapping):
        raise BadInput(
            f"data[{MORE!r}]: give a dictionary of test sets by name, not {shown(tests)}"
        )
    return {
        str(name): MemoryConfig.of(f"data[{MORE!r}][{name!r}]", listed(examples, "examples"))
        for name, examples in tests.items()
    }


def with_dev_as_test(recipe: Recipe) -> Recipe:
    """The recipe with its dev set in place of its test sets."""
    sets = recipe.data.model_copy(update={"test": None, "more_tests": {"dev": recipe.data.dev}})
    return recipe.model_copy(update={"data": sets})


def score_tests(
    model: Runner,
    recipe: Recipe,
    data: Path,
    dropped: Dropped = None,
    *,
    with_interval: bool = False,
) -> dict[str, TaskScores]:
    """Score a model on each test set; scores by name of the set, for some tasks with intervals."""
    task = task_of(recipe)
    interval = with_interval or task.has_intervals
    return {
        name: task.test_scores(model, task.read_required(name, data, dropped), interval)
        for name in recipe.data.tests
    }
