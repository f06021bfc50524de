"""Training runs: one, one for each of several seeds, and what a run would need."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf
from pathlib import Path
from statistics import mean, stdev
from typing import cast

from rich.text import Text

from regard.api import load
from regard.core.checks import check_whole
from regard.core.errors import ArgumentName, BadArgument, BadInput, did_you_mean
from regard.core.files import write_json
from regard.core.keywords import check_keywords
from regard.data.readers.fields import DropCounts
from regard.experiments.notes import Listener, Note, Stop, Stopped, ignore, progress_notes
from regard.experiments.result import (
    Cell,
    ExperimentResult,
    OutputTable,
    number_column,
    text_column,
)
from regard.experiments.scores import Evaluation, Expected, ScoreTables, cost_line, evaluate
from regard.inside.heads.watch_heads import watch_heads
from regard.inside.number_spectrum import watch_numbers
from regard.metrics.translation import MetricScore
from regard.models.encoder_decoder import ModelFacts
from regard.training.distributed import World
from regard.training.loop.events import EndEvent, Event, duration
from regard.training.loop.trainable import chosen_precision
from regard.training.loop.trainer import Diverged
from regard.training.recipe import Recipe
from regard.training.recipe.overrides import Settings
from regard.training.run import Run, Watcher, prepare
from regard.training.run_events import (
    AnyData,
    AnyRecipe,
    DescribedRun,
    TrainingOptions,
    described_run,
    run_events,
)
from regard.training.run_folder import first_precision


@dataclass(frozen=True)
class TrainingResult:
    """Result of a training run: its folder, and the events of the run, by which it can be iterated.

    The trained model is in ``model_folder``. Of several seeds, it has the events of all runs, and
    ``scores`` of their models.
    """

    folder: Path
    events: tuple[Event, ...]
    scores: "SeedScores | None" = None

    def __iter__(self) -> Iterator[Event]:
        return iter(self.events)

    def __len__(self) -> int:
        return len(self.events)

    def __str__(self) -> str:
        return str(self.scores or f"{self.model_folder}: {self.events[-1]}")

    @property
    def model_folder(self) -> Path:
        """The folder of the trained model, of the first seed, for ``regard.load``."""
        run = Path() if self.scores is None else Path(f"seed-{self.scores.seeds[0]}")
        return self.folder / run / "model"


@check_keywords
def train(
    recipe: AnyRecipe,
    data: AnyData = Path(),
    out: str | Path | None = None,
    *,
    settings: Settings = (),
    seeds: int | None = None,
    facts: ModelFacts | None = None,
    device: str | None = None,
    resume: bool = False,
    overwrite: bool = False,
    skip_bad: bool = False,
    budget: float = float("inf"),
    loggers: Iterable[str] = (),
    watch: Mapping[str, Watcher] | None = None,
    on_event: Listener | None = None,
) -> TrainingResult:
    """Train by a recipe to the end; then the model is in ``out/model``.

    Each event is given to ``on_event`` when it happens; by default its lines are printed on
    standard error. The result has all of them: ``for event in regard.train(...)`` reads them after
    the run, ``regard.train_events(...)`` while it runs.

    The recipe is a name or a path, the text of a recipe file, its tables or a ``Recipe``;
    ``settings`` such as {"train.steps": 100} are laid over it, and ``facts``, such as
    ``regard.change(facts, depth=6)``, replace those of its model. ``data`` is the folder of its
    files, or has examples under "train", "dev" and "test", and further test sets by name under
    "more_tests": (source, target) to translate, (text, label) to classify, (words, tags) to tag,
    (question, context, answers) to answer, (text, choices, number) to choose, texts or lists of
    sentences to pre-train. An integer under "dev" is the number of training examples to hold out.
    With ``skip_bad``, bad examples are left out.

    The default of ``out`` is runs/NAME. A folder that has a run is refused, unless this one
    continues it from its last checkpoint (``resume``) or replaces it (``overwrite``, for a cell
    that is run again). Training stops after ``budget`` seconds. A run that diverges, or is
    interrupted by Ctrl-C, leaves its best model so far there. The trained model is scored on each
    test set: a ``ScoreEvent`` before the ``EndEvent``. Figures also go to ``loggers``: "wandb",
    "mlflow".

    With ``seeds``, the recipe is trained that many times, with successive seeds, each in a folder
    of its own, ``out/seed-N``; the result has the mean and the deviation of the ``scores``. Of
    several processes, the first alone has them.

    ``watch`` has functions that report on the model before the first step and after each
    evaluation, such as {"heads": regard.watch_heads}: called with the model and a few inputs of the
    development set, they return a dictionary for JSON. Each report is a ``WatchEvent``, and a line
    of ``out/watch/NAME.jsonl``.
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
    run, events = described_run(recipe, data, out, options), list[Event]()

    def hear(event: Note | Event) -> None:
        if not isinstance(event, Note):
            events.append(event)
        (on_event or _print_lines)(event)

    if seeds is not None:
        check_whole("seeds", seeds, 2)
        scores = _scores_of_seeds(run, seeds, hear)
        return TrainingResult(run.folder, tuple(events), scores)
    stream = run.events()
    with progress_notes(hear):
        for event in stream:
            try:
                hear(event)
            except BaseException as error:  # as if the run had raised it: Ctrl-C saves the model
                stream.throw(error)
                raise
    return TrainingResult(run.folder, tuple(events))


def _scores_of_seeds(run: DescribedRun, seeds: int, hear: Listener) -> "SeedScores | None":
    options = run.options
    world = World.join(options.device, run.recipe.distributed.timeout)
    train_one = partial(
        train_run,
        world=world,
        resume=options.resume,
        overwrite=options.overwrite,
        data=run.data,
        skip_bad=options.skip_bad,
        budget_seconds=options.budget,
        loggers=[*options.loggers],
        watch=options.watch,
        on_event=hear,
    )
    with world.together(Diverged):
        return train_seeds(
            run.recipe,
            seeds,
            run.folder,
            world,
            train_one,
            run.data,
            check=not options.settings and options.facts is None and options.budget == inf,
            skip_bad=options.skip_bad,
            on_event=hear,
        )


def _print_lines(event: Note | Event) -> None:
    """Print the lines of an event on standard error, in the first of several processes."""
    if os.environ.get("RANK", "0") == "0":
        for line in event.lines():
            print(line, file=sys.stderr)


WATCHES: Mapping[str, Watcher] = {"heads": watch_heads, "numbers": watch_numbers}
"""Reports on a model in training, by name."""


def named_watches(names: Sequence[str]) -> dict[str, Watcher]:
    """The reports of these names."""
    for name in names:
        if name not in WATCHES:
            fault = f" {name}: no report is called so{did_you_mean(name, WATCHES)}"
            raise BadInput((ArgumentName("watch"), fault))
    return {name: WATCHES[name] for name in names}


def train_run(
    recipe: Recipe,
    folder: Path,
    *,
    world: World,
    resume: bool,
    overwrite: bool = False,
    data: Path = Path(),
    skip_bad: bool = False,
    prepared: Path | None = None,
    budget_seconds: float = inf,
    loggers: Sequence[str] = (),
    watch: Mapping[str, Watcher] | None = None,
    remedy: str = "the same command with --resume continues",
    on_event: Listener = ignore,
    stop: Stop | None = None,
) -> Run:
    """Train by a recipe and write the best model.

    If ``stop`` asks for it, the run ends with a checkpoint and the best model so far, and raises
    ``Stopped``; ``remedy`` says how it is continued. The first of several processes reports events.
    """
    stop, tell = stop or Stop(), on_event if world.is_leader else ignore
    with progress_notes(tell):
        run = prepare(
            recipe,
            folder,
            world,
            resume=resume,
            overwrite=overwrite,
            data=data,
            skip_bad=skip_bad,
            prepared=prepared,
            budget_seconds=budget_seconds,
            stop_requested=stop,
            watch=watch,
        )
    try:
        tell(Note(figures=_figures_of(run)))
        with stop.noticed():
            end = _run_loop(run, resume, loggers, tell)
    except BaseException:
        run.release()
        raise
    if run.dropped:
        tell(Note(f"dropped: {run.dropped}"))
    if world.is_leader:
        weights = run.finish(end.progress)
        time = duration(end.progress.seconds)
        again = f"; {remedy}" if end.reason == "request" else ""
        tell(Note(f"{run.model_folder}: {weights}, after {time} of training{again}"))
    if end.reason == "request":
        world.barrier()  # a launcher ends all processes when one of them exits
        raise Stopped
    return run


def _figures_of(run: Run) -> dict[str, str | float]:
    """Sizes of a run that is prepared, with its data, tokenizer and first weights."""
    vocabularies = run.tokenizer.vocabularies
    return {
        "event": "prepared",
        "paper": run.paper.name,
        "parameters": run.paper.parameters(run.facts),
        "vocabulary": len(vocabularies[0]) if vocabularies else 0,
        "steps": run.job.recipe.train.steps,
    }


def _run_loop(run: Run, resume: bool, loggers: Sequence[str], tell: Listener) -> EndEvent:
    """Run the training loop to its end; returns its last event."""
    for number, event in enumerate(run_events(run, resume=resume, loggers=loggers)):
        if not number and resume and not event.progress.step:
            tell(Note(f"{run.out}: nothing to resume yet; training starts from the beginning"))
        if not number and run.lock is not None and not run.lock.held:
            tell(Note(f"{run.out}: this file system has no locks; start no second run there"))
        tell(event)
    return cast(EndEvent, event)


def evaluate_run(
    run: Run, recipe: Recipe, data: Path, *, check: bool, skip_bad: bool = False
) -> Evaluation | None:
    """Score a trained model on the test sets of its recipe, if it has any."""
    if not recipe.data.tests:
        return None
    model = load(run.model_folder, str(run.job.world.device), precision="auto")
    dropped = DropCounts() if skip_bad else None
    return evaluate(model, recipe, data, dropped=dropped, check=check)


@dataclass(frozen=True)
class Spread:
    """The values of a metric on the test set ``of``, for every seed."""

    of: str
    name: str
    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Mean over all seeds."""
        return mean(self.values)

    @property
    def deviation(self) -> float:
        """Sample standard deviation over all seeds."""
        return stdev(self.values)


@dataclass(frozen=True)
class SeedScores(ExperimentResult):
    """Scores of a recipe that was trained with several seeds, and the cost of all runs."""

    seeds: Sequence[int]
    spreads: Sequence[Spread]
    cost: Mapping[str, float]
    expected: Expected | None = None

    @property
    def reached(self) -> bool:
        """Whether the mean reaches the expected score, if there is one."""
        return self.expected is None or self.expected.reached

    def tables(self) -> list[OutputTable]:
        several = len({spread.of for spread in self.spreads}) > 1
        rows: list[list[Cell]] = []
        for spread in self.spreads:
            name = f"{spread.of}  {spread.name}" if several else spread.name
            rows.append([name, spread.mean, spread.deviation, *spread.values])
        names = ["mean", "deviation", *(f"seed {seed}" for seed in self.seeds)]
        columns = [text_column("measure"), *(number_column(name, ".2f") for name in names)]
        notes = [f"all {len(self.seeds)} runs, {cost_line(self.cost)}"]
        return [OutputTable(columns, rows, notes=notes)]

    def text(self, width: int | None = None) -> Iterator[Text | str]:
        yield from super().text(width)
        if self.expected is not None:
            yield str(self.expected)

    @property
    def figures(self) -> dict[str, object]:
        """Record for seeds.json."""
        measures = [{**vars(it), "mean": it.mean, "deviation": it.deviation} for it in self.spreads]
        return {"seeds": self.seeds, "measures": measures, "cost": self.cost}


def train_seeds(
    recipe: Recipe,
    count: int,
    folder: Path,
    world: World,
    train: Callable[[Recipe, Path], Run],
    data: Path,
    *,
    check: bool,
    skip_bad: bool = False,
    on_event: Listener = ignore,
) -> SeedScores | None:
    """Train with each seed in its own folder; the table of scores, in the first process.

    With ``check``, the mean is compared with the expected score.
    """
    if recipe.data.test is None:
        raise BadArgument("needs a test set (data.test)", key="seeds")
    tell = on_event if world.is_leader else ignore
    seeds = [recipe.train.seed + number for number in range(count)]
    folders = [folder / f"seed-{seed}" for seed in seeds]
    recipe, *_ = in_one_precision(dict.fromkeys(folders, recipe), world)
    tables, costs = list[ScoreTables](), list[Mapping[str, float]]()
    for seed, out in zip(seeds, folders, strict=True):
        tell(Note(f"\nseed {seed}"))
        run = train(with_train_keys(recipe, seed=seed), out)
        if world.is_leader:
            scores = evaluate_run(run, recipe, data, check=False, skip_bad=skip_bad)
            assert scores is not None and scores.cost is not None
            tables.append({name: test.scores for name, test in scores.tests.items()})
            costs.append(scores.cost)
        world.barrier()
    if not world.is_leader:
        return None
    spreads = spreads_of(tables)
    total = {name: sum(cost[name] for cost in costs) for name in costs[0]}
    total["parameters"] = costs[0]["parameters"]
    expected = None
    if check and recipe.expect is not None:
        means = [MetricScore(it.name, it.mean, "") for it in spreads if it.of == "test"]
        expected = Expected.of(recipe.expect, means)
    result = SeedScores(seeds, spreads, total, expected)
    write_json(folder / "seeds.json", result.figures)
    tell(Note(f"{folder / 'seeds.json'}: the same table as JSON"))
    return result


def with_train_keys(recipe: Recipe, **keys: object) -> Recipe:
    """The recipe with other values of keys of its table [train]."""
    return recipe.model_copy(update={"train": recipe.train.model_copy(update=keys)})


def in_one_precision(runs: Mapping[Path, Recipe], world: World) -> list[Recipe]:
    """The recipes of runs that are compared, by folder: those with precision "auto" get the same.

    It is the one of the first of them that has begun, maybe on another machine, else the choice of
    this machine.
    """
    undecided = [out for out, recipe in runs.items() if recipe.train.precision == "auto"]
    if not undecided:
        return [*runs.values()]
    kind = first_precision(undecided) or chosen_precision(runs[undecided[0]], world).kind
    return [
        with_train_keys(recipe, precision=kind) if out in undecided else recipe
        for out, recipe in runs.items()
    ]


def spreads_of(tables: Sequence[ScoreTables]) -> list[Spread]:
    """Every metric of every test set, from the scores of each seed."""
    return [
        Spread(of, score.name, tuple(table[of][number].value for table in tables))
        for of, scores in tables[0].items()
        for number, score in enumerate(scores)
    ]
