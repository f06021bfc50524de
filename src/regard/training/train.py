"""``regard.train``: a recipe and data, from memory or files, to a trained folder, as events."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.data.config import MemoryConfig
from regard.data.readers.fields import DropCounts, Dropped
from regard.ground.checks import check_whole, listed
from regard.ground.errors import BadInput, did_you_mean, shown
from regard.ground.keywords import check_keywords
from regard.models.folders import folder as folders
from regard.tasks.components import Runner
from regard.tasks.task import TaskScores
from regard.training.checkpoint import RunProgress
from regard.training.distributed import World
from regard.training.loggers import OpenLoggers, check_loggers
from regard.training.loop import train as train_loop
from regard.training.loop.events import Event, ScoreEvent
from regard.training.loop.trainer import Diverged
from regard.training.metrics_log import MetricsLog
from regard.training.recipe import Recipe, make_recipe, task_of
from regard.training.recipe.overrides import Settings
from regard.training.recipe_files import find, parse_tables, read_tables
from regard.training.run import Run, Watcher, prepare

AnyRecipe = str | Path | Mapping[str, object] | Recipe
AnyData = str | Path | Mapping[str, Iterable[object] | int]
TRAIN, DEV, TEST, MORE = SPLITS = ("train", "dev", "test", "more_tests")


@check_keywords
def train(
    recipe: AnyRecipe,
    data: AnyData = Path(),
    out: str | Path | None = None,
    *,
    settings: Settings = (),
    device: str | None = None,
    resume: bool = False,
    skip_bad: bool = False,
    budget: float = float("inf"),
    loggers: Iterable[str] = (),
    watch: Mapping[str, Watcher] | None = None,
) -> Iterator[Event]:
    """Train by a recipe and yield events; after the last event the model is in ``out/model``.

    The recipe is a name or a path, the text of a recipe file, its tables or a ``Recipe``;
    ``settings`` such as {"train.steps": 100} are laid over it. ``data`` is the folder of its files,
    or has examples under "train", "dev" and "test", and further test sets by name under
    "more_tests": (source, target) to translate, (text, label) to classify, (words, tags) to tag,
    (question, context, answers) to answer, (text, choices, number) to choose, texts or lists of
    sentences to pre-train. An integer under "dev" is the number of training examples to hold out.
    With ``skip_bad``, bad examples are left out.

    The default of ``out`` is runs/NAME. Training stops after ``budget`` seconds; with ``resume`` it
    continues from the last checkpoint. A run that diverges, or is interrupted by Ctrl-C, leaves its
    best model so far there. The trained model is scored on each test set: a
    ``ScoreEvent`` before the ``EndEvent``. Figures also go to ``loggers``: "wandb", "mlflow".

    ``watch`` has functions that report on the model before the first step and after each
    evaluation, such as {"heads": regard.watch_heads}: called with the model and a few inputs of the
    development set, they return a dictionary for JSON. Each report is a ``WatchEvent``, and a line
    of ``out/watch/NAME.jsonl``.
    """
    tables, name = _tables_of(recipe)
    root = Path()
    if isinstance(data, Mapping):
        tables["data"] = _data_tables(data, tables.get("data"))
    elif isinstance(data, str | Path):
        root = Path(data)
    else:
        raise BadInput(f"data must be a folder, or examples by name, not {shown(data)}")
    parsed = make_recipe(tables, name, settings)
    if parsed.rung:
        raise BadInput(f"{name}: a ladder trains several models; train the recipe of one of them")
    folder = Path("runs") / Path(name).stem if out is None else Path(out)
    options = {"data": root, "resume": resume, "skip_bad": skip_bad, "budget_seconds": budget}
    options["watch"] = check_watch(watch)
    return _events(parsed, folder, device, options, check_loggers(loggers))


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
        kept = run.keep_best(error.progress) if world.is_leader else ""
        world.barrier()
        raise Diverged(f"{error}; {kept}", error.progress) from None
    finally:
        if log is not None and log.loggers is not None:
            log.loggers.close(succeeded)


def _open_log(run: Run, after_step: int, loggers: Sequence[str]) -> MetricsLog:
    recipe = run.job.recipe.model_dump(mode="json", serialize_as_any=True)
    opened = OpenLoggers(loggers, run.out, recipe, after_step)
    return MetricsLog(run.out, after_step=after_step, loggers=opened)


def _events(
    recipe: Recipe,
    folder: Path,
    device: str | None,
    options: dict[str, Any],
    loggers: Sequence[str],
) -> Iterator[Event]:
    world = World.join(device, recipe.distributed.timeout)
    progress = RunProgress()
    with world.together(GeneratorExit, Diverged):
        run = prepare(recipe, folder, world, **options)
        try:
            for event in run_events(run, resume=options["resume"], loggers=loggers):
                progress = event.progress
                if event.is_last and world.is_leader:
                    run.finish(progress)
                    yield from _score_events(run, progress, options)
                yield event
        except KeyboardInterrupt:
            if world.is_leader:
                run.keep_best(progress)
            raise
        finally:
            run.release()


def _score_events(run: Run, progress: RunProgress, options: dict[str, Any]) -> Iterator[ScoreEvent]:
    """The scores of the trained model on each test set of the recipe."""
    recipe = run.job.recipe
    if not recipe.data.tests:
        return
    model = Runner(folders.read(run.model_folder, run.job.world.device), "auto")
    dropped = DropCounts() if options["skip_bad"] else None
    for name, results in score_tests(model, recipe, options["data"], dropped).items():
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
