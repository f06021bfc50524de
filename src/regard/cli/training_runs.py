"""Training runs of the command line: started, shown, stopped by a signal, evaluated.

``--seeds`` trains one recipe with several seeds, for means and standard deviations. ``--dry-run``
reads and checks everything, and times a few steps.
"""

import signal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from tempfile import TemporaryDirectory
from typing import Any, cast

import typer
from rich.live import Live
from rich.text import Text

from regard.api import load
from regard.cli.io.console import ERR, OUT, cost_line, note, print_table
from regard.cli.scores import check_expected, show_scores, test_scores
from regard.data.files.fields import DropCounts
from regard.ground.errors import BadInput
from regard.ground.files import write_json
from regard.ground.interrupt import signals_in_use
from regard.metrics.translation import MetricScore
from regard.training.distributed import World
from regard.training.dry_run import DryRun, estimate_run
from regard.training.loop.events import EndEvent, Event, duration
from regard.training.recipe import Recipe, task_of
from regard.training.run import Run, prepare
from regard.training.train import run_events


def train_run(recipe: Recipe, folder: Path, *, world: World, resume: bool, **options: Any) -> Run:
    """Train by a recipe and write the model; a signal saves a checkpoint and exits."""
    signals: list[int] = []
    options["stop_requested"] = lambda: bool(signals)
    run = prepare(recipe, folder, world, resume=resume, **options)
    steps = recipe.train.steps
    warmup = recipe.optimiser.warmup_steps(steps)
    if warmup > steps and world.is_leader:
        peak = "the learning rate never reaches its peak"
        note(f"optimiser.warmup: {warmup:,} steps of {steps:,}: {peak}")
    with collect_signals(signals):
        ended = run_loop(run, resume=resume)
    if ended.reason == "request":
        if world.is_leader:
            note("--resume continues")
        raise typer.Exit(128 + (signals or [signal.SIGTERM])[0])  # or another rank was signalled
    if world.is_leader:
        weights = run.finish(ended.progress)
        time = duration(ended.progress.seconds)
        note(f"{run.model_folder}: {weights}, after {time} of training")
    return run


def run_loop(run: Run, *, resume: bool = False, quiet: bool = False) -> EndEvent:
    """Run the training loop to its end; events are logged and printed."""
    job, leads = run.job, run.job.world.is_leader
    progress = Progress(job.recipe.train.steps, quiet=quiet or not leads)
    with progress, released_on_error(run):
        for number, event in enumerate(run_events(run, resume=resume)):
            if not number and leads:
                if resume and not event.progress.step:
                    note(f"{run.out}: nothing to resume yet; training starts from the beginning")
                if run.lock is not None and not run.lock.held:
                    note(f"{run.out}: this file system has no locks; start no second run there")
            progress.show(event)
    if run.dropped and leads:
        note(f"dropped: {run.dropped}")
    return cast(EndEvent, event)  # the last one is


def evaluate_run(run: Run, recipe: Recipe, data: Path, check: bool, skip_bad: bool = False) -> bool:
    """Print the scores on the test set; false if the expected score is to ``check`` and missed."""
    if not recipe.data.tests:
        return True
    model = load(run.model_folder, str(run.job.world.device), precision="auto")
    tables = test_scores(model, recipe, data, DropCounts() if skip_bad else None)
    show_scores(tables, model)
    if not check or recipe.expect is None or "test" not in tables:
        return True
    return check_expected(recipe.expect, tables["test"])


@contextmanager
def released_on_error(run: Run) -> Iterator[None]:
    """If this block fails, release the folder of the run."""
    try:
        yield
    except BaseException:
        run.release()
        raise


@contextmanager
def collect_signals(signals: list[int]) -> Iterator[None]:
    """Collect Ctrl-C, a scheduler's SIGTERM and SIGHUP; a second Ctrl-C interrupts at once."""

    def remember(number: int, frame: object) -> None:
        signals.append(number)
        signal.signal(signal.SIGINT, signal.default_int_handler)

    before = {number: signal.signal(number, remember) for number in signals_in_use()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Progress:
    """Prints training events: one live line in a terminal, lines elsewhere."""

    def __init__(self, steps: int, quiet: bool = False):
        self.steps, self.quiet = steps, quiet
        moves = ERR.is_terminal and not quiet
        self.live = Live(console=ERR, refresh_per_second=4, transient=True) if moves else None
        self.dev = ""  # the last line about the development set

    def __enter__(self) -> "Progress":
        if self.live:
            self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.live:
            self.live.stop()

    def show(self, event: Event) -> None:
        """Print one event; reports replace each other where a line can move."""
        if self.quiet:
            return
        about = event.figures.get("event")
        for line in event.lines(self.steps):
            if about == "dev":
                self.dev = line
            if self.live and about == "train":
                self.live.update(Text(f"{line}  {self.dev}"))
            else:
                note(line)


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
    _print_spreads(seeds, spreads, cost)
    figures = [{**vars(one), "mean": one.mean, "deviation": one.deviation} for one in spreads]
    write_json(folder / "seeds.json", {"seeds": seeds, "measures": figures, "cost": cost})
    note(f"{folder / 'seeds.json'}: the same as JSON")
    means = [MetricScore(one.name, one.mean, "") for one in spreads if one.of == "test"]
    return not check or recipe.expect is None or check_expected(recipe.expect, means)


def with_seed(recipe: Recipe, seed: int) -> Recipe:
    """The recipe with another seed."""
    train = recipe.train.model_copy(update={"seed": seed})
    return recipe.model_copy(update={"train": train})


def _with_precision(recipe: Recipe, run: Run) -> Recipe:
    """The recipe with the precision that the first run chose: only seeds may differ."""
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


def _print_spreads(
    seeds: Sequence[int], spreads: Sequence[Spread], cost: Mapping[str, float]
) -> None:
    several = len({one.of for one in spreads}) > 1
    rows = []
    for one in spreads:
        name = f"{one.of}  {one.name}" if several else one.name
        numbers = (one.mean, one.deviation, *one.values)
        rows.append([name, *(f"{number:.2f}" for number in numbers)])
    print_table(["measure", "mean", "deviation", *(f"seed {seed}" for seed in seeds)], rows)
    OUT.print(f"all {len(seeds)} runs, {cost_line(cost)}", markup=False)


def dry_run(
    recipe: Recipe, world: World, seeds: int | None, budget_seconds: float, **options: Any
) -> None:
    """Print counts and an estimated training time of a recipe, or of each rung of a ladder."""
    if world.size > 1:
        raise BadInput("--dry-run: runs in one process; start it without torchrun")
    if options.pop("resume"):
        raise BadInput("--dry-run: cannot be used with --resume")
    rungs = [(rung.name, recipe.at(rung)) for rung in recipe.rung] or [("", recipe)]
    seconds = 0.0
    for number, (name, described) in enumerate(rungs):
        trial = _measure(described, world, **options)
        if name:
            OUT.print(f"\n{name}" if number else name, markup=False)
        _print_counts(_count_lines(described, trial, world, budget_seconds))
        seconds += min(trial.estimate, budget_seconds) * (seeds or 1)
    if len(rungs) > 1 or seeds:
        what = f"{len(rungs)} rungs" if len(rungs) > 1 else f"{seeds} seeds"
        OUT.print(f"\nall {what}: about {duration(seconds)} (estimated)")
    OUT.print("nothing was written")


def _measure(recipe: Recipe, world: World, **options: Any) -> DryRun:
    with TemporaryDirectory(prefix="regard-") as folder:
        run = prepare(recipe, Path(folder) / "run", world, **options)
        try:
            return estimate_run(run)
        finally:
            run.release()


def _count_lines(
    recipe: Recipe, trial: DryRun, world: World, budget_seconds: float
) -> Iterator[tuple[str, str]]:
    """Each figure of one run under its name."""
    sizes = ", ".join(f"{name} {count:,}" for name, count in trial.sizes.items())
    yield task_of(recipe).unit, sizes
    yield "dropped", str(trial.dropped)
    if trial.vocabulary:
        yield "vocabulary", " and ".join(f"{size:,}" for size in trial.vocabulary)
    if trial.labels:
        yield "labels", f"{trial.labels:,}"
    learn = "all are trained" if trial.trained == trial.parameters else f"{trial.trained:,} trained"
    yield "parameters", f"{trial.parameters:,}, {learn}"
    yield from (("weights", remark) for remark in trial.remarks)
    about = "about " if trial.epoch.estimated else ""
    yield "an epoch", f"{about}{trial.epoch.batches:,} batches, {trial.epoch.tokens:,} tokens"
    yield "training", f"{trial.steps:,} steps, {trial.epochs:.3g} epochs, {trial.tokens:,} tokens"
    where = f"{world.device}, {trial.precision.kind}: {trial.precision.why}"
    yield "a step", f"{trial.step:.3g} s ({where}; median of {len(trial.seconds)})"
    rest = "without scoring the development set"
    yield "estimated", f"{duration(trial.estimate)} of training on this machine, {rest}"
    if trial.estimate > budget_seconds:
        steps = max(1, int(budget_seconds / trial.step))
        yield "budget", f"{duration(budget_seconds)} would end it after about {steps:,} steps"


def _print_counts(lines: Iterable[tuple[str, str]]) -> None:
    for name, figures in lines:
        OUT.print(f"{name:<12}{figures}", markup=False)
