"""Training runs of the command line, with their progress, signals, seeds and dry runs."""

import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from pathlib import Path
from statistics import mean, stdev
from tempfile import TemporaryDirectory
from typing import cast

from rich.live import Live
from rich.text import Text
from typer import Exit

from regard.api import Model, load
from regard.cli.io.console import ERR, cost_line, note, print_line
from regard.cli.io.table_formats import (
    Cell,
    OutputTable,
    TableFormat,
    number_column,
    print_tables,
    text_column,
)
from regard.cli.scores import ScoreTables, check_expected, print_scores, test_scores
from regard.data.readers.fields import DropCounts
from regard.ground.errors import BadInput, did_you_mean
from regard.ground.files import write_json
from regard.ground.interrupt import signals_in_use
from regard.inside.heads.watch_heads import watch_heads
from regard.inside.number_spectrum import watch_numbers
from regard.metrics.translation import MetricScore
from regard.training.distributed import World
from regard.training.dry_run import DryRun, estimate_rank, estimate_run
from regard.training.loop.events import EndEvent, Event, duration
from regard.training.loop.trainer import Diverged
from regard.training.memory_estimate import GIB, capacity, check_fit, estimate_seconds
from regard.training.recipe import Recipe, task_of
from regard.training.run import Run, Watcher, prepare
from regard.training.train import run_events

WATCHES: Mapping[str, Watcher] = {"heads": watch_heads, "numbers": watch_numbers}
"""Reports on a model in training, by the value of --watch."""


def named_watches(names: Sequence[str]) -> dict[str, Watcher]:
    """The reports of these names."""
    for name in names:
        if name not in WATCHES:
            raise BadInput(f"--watch {name}: no report is called so{did_you_mean(name, WATCHES)}")
    return {name: WATCHES[name] for name in names}


def train_run(
    recipe: Recipe,
    folder: Path,
    *,
    world: World,
    resume: bool,
    data: Path = Path(),
    skip_bad: bool = False,
    prepared: Path | None = None,
    budget_seconds: float = inf,
    loggers: Sequence[str] = (),
    watch: Mapping[str, Watcher] | None = None,
) -> Run:
    """Train by a recipe and write the best model.

    After a signal the run ends with a checkpoint and the best model so far.
    """
    signals: list[int] = []
    run = prepare(
        recipe,
        folder,
        world,
        resume=resume,
        data=data,
        skip_bad=skip_bad,
        prepared=prepared,
        budget_seconds=budget_seconds,
        stop_requested=lambda: bool(signals),
        watch=watch,
    )
    steps = run.job.recipe.train.steps
    warmup = recipe.optimiser.warmup_steps(steps)
    if warmup > steps and world.is_leader:
        peak = "the learning rate never reaches its peak"
        note(f"optimiser.warmup: {warmup:,} steps of {steps:,}: {peak}")
    try:
        with collect_signals(signals):
            end = run_loop(run, resume=resume, loggers=loggers)
    except Diverged as error:
        if world.is_leader:
            raise
        raise Exit(error.code) from None  # the leader prints the message
    if world.is_leader:
        weights = run.finish(end.progress)
        time = duration(end.progress.seconds)
        again = "; the same command with --resume continues" if end.reason == "request" else ""
        note(f"{run.model_folder}: {weights}, after {time} of training{again}")
    if end.reason == "request":
        world.barrier()  # a launcher ends all processes when one of them exits
        raise Exit(128 + (signals or [signal.SIGTERM])[0])  # or another rank was signalled
    return run


def run_loop(
    run: Run, *, resume: bool = False, quiet: bool = False, loggers: Sequence[str] = ()
) -> EndEvent:
    """Run the training loop to its end and print its events; on an error, release the folder."""
    is_leader = run.job.world.is_leader
    try:
        with Progress(run.job.recipe.train.steps, quiet=quiet or not is_leader) as progress:
            for number, event in enumerate(run_events(run, resume=resume, loggers=loggers)):
                if not number and is_leader:
                    if resume and not event.progress.step:
                        note(
                            f"{run.out}: nothing to resume yet; training starts from the beginning"
                        )
                    if run.lock is not None and not run.lock.held:
                        note(f"{run.out}: this file system has no locks; start no second run there")
                progress.show(event)
    except BaseException:
        run.release()
        raise
    if run.dropped and is_leader:
        note(f"dropped: {run.dropped}")
    return cast(EndEvent, event)  # the last event


def evaluate_run(
    run: Run,
    recipe: Recipe,
    data: Path,
    check: bool,
    skip_bad: bool = False,
    table_format: TableFormat = "text",
) -> bool:
    """Print the scores on the test sets; with ``check``, whether the expected score is reached."""
    if not recipe.data.tests:
        return True
    model, tables = _scores_of(run, recipe, data, skip_bad)
    print_scores(tables, model, table_format)
    if not check or recipe.expect is None or "test" not in tables:
        return True
    return check_expected(recipe.expect, tables["test"], quiet=table_format != "text")


def _scores_of(run: Run, recipe: Recipe, data: Path, skip_bad: bool) -> tuple[Model, ScoreTables]:
    model = load(run.model_folder, str(run.job.world.device), precision="auto")
    return model, test_scores(model, recipe, data, DropCounts() if skip_bad else None)


@contextmanager
def collect_signals(signals: list[int]) -> Iterator[None]:
    """Collect SIGINT (Ctrl-C), SIGTERM and SIGHUP; a second Ctrl-C interrupts at once."""

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
    """Printer of training events: a live line in a terminal, lines elsewhere."""

    def __init__(self, steps: int, quiet: bool = False):
        self.steps, self.quiet = steps, quiet
        moves = ERR.is_terminal and not quiet
        self.live = Live(console=ERR, refresh_per_second=4, transient=True) if moves else None
        self.dev = ""  # last line about the dev set

    def __enter__(self) -> "Progress":
        if self.live:
            self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.live:
            self.live.stop()

    def show(self, event: Event) -> None:
        """Print an event; in a terminal, a report replaces the report before it."""
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


def train_seeds(
    recipe: Recipe,
    count: int,
    folder: Path,
    world: World,
    train: Callable[[Recipe, Path], Run],
    data: Path,
    check: bool,
    skip_bad: bool = False,
    table_format: TableFormat = "text",
) -> bool:
    """Train with each seed in its own folder and print the table of scores.

    With ``check``, return whether the mean reaches the expected score.
    """
    if recipe.data.test is None:
        raise BadInput("--seeds: needs a test set (data.test)")
    seeds = [recipe.train.seed + number for number in range(count)]
    tables, costs = [], []
    for seed in seeds:
        if world.is_leader:
            note(f"\nseed {seed}")
        run = train(with_train_keys(recipe, seed=seed), folder / f"seed-{seed}")
        checkpoints = run.job.checkpoints
        settings = checkpoints.progress(checkpoints.steps()[-1]).settings
        recipe = with_train_keys(recipe, precision=settings["precision"])  # only seeds may differ
        if world.is_leader:
            model, table = _scores_of(run, recipe, data, skip_bad)
            tables.append(table)
            costs.append(model.notes["cost"])
        world.barrier()
    if not world.is_leader:
        return True
    spreads = spreads_of(tables)
    total = {name: sum(cost[name] for cost in costs) for name in costs[0]}
    total["parameters"] = costs[0]["parameters"]
    _print_spreads(seeds, spreads, total, table_format)
    metrics = [
        {**vars(spread), "mean": spread.mean, "deviation": spread.deviation} for spread in spreads
    ]
    write_json(folder / "seeds.json", {"seeds": seeds, "measures": metrics, "cost": total})
    note(f"{folder / 'seeds.json'}: the same table as JSON")
    means = [MetricScore(spread.name, spread.mean, "") for spread in spreads if spread.of == "test"]
    if not check or recipe.expect is None:
        return True
    return check_expected(recipe.expect, means, quiet=table_format != "text")


def with_train_keys(recipe: Recipe, **keys: object) -> Recipe:
    """The recipe with other values of keys of its table [train]."""
    return recipe.model_copy(update={"train": recipe.train.model_copy(update=keys)})


def spreads_of(tables: Sequence[ScoreTables]) -> list[Spread]:
    """Every metric of every test set, from the scores of each seed."""
    return [
        Spread(of, score.name, tuple(table[of][number].value for table in tables))
        for of, scores in tables[0].items()
        for number, score in enumerate(scores)
    ]


def _print_spreads(
    seeds: Sequence[int],
    spreads: Sequence[Spread],
    cost: Mapping[str, float],
    table_format: TableFormat,
) -> None:
    several = len({spread.of for spread in spreads}) > 1
    rows: list[list[Cell]] = []
    for spread in spreads:
        name = f"{spread.of}  {spread.name}" if several else spread.name
        rows.append([name, spread.mean, spread.deviation, *spread.values])
    names = ["mean", "deviation", *(f"seed {seed}" for seed in seeds)]
    columns = [text_column("measure"), *(number_column(name, ".2f") for name in names)]
    notes = [f"all {len(seeds)} runs, {cost_line(cost)}"]
    print_tables([OutputTable(columns, rows, notes=notes)], table_format)


def dry_run(
    recipe: Recipe,
    world: World,
    seeds: int | None,
    data: Path,
    resume: bool,
    skip_bad: bool,
    budget_seconds: float,
) -> None:
    """Print counts and an estimated training time of a recipe, or of each rung of a ladder."""
    if world.size > 1:
        raise BadInput("--dry-run: runs in one process; start it without torchrun")
    if resume:
        raise BadInput("--dry-run: cannot be used with --resume")
    rungs = [(rung.name, recipe.at(rung)) for rung in recipe.rung] or [("", recipe)]
    seconds = 0.0
    for number, (name, described) in enumerate(rungs):
        with TemporaryDirectory(prefix="regard-") as folder:
            run = prepare(described, Path(folder) / "run", world, data=data, skip_bad=skip_bad)
            try:
                trial = estimate_run(run, data, skip_bad)
            finally:
                run.release()
        if name:
            print_line(f"\n{name}" if number else name)
        for label, figures in _count_lines(described, trial, world, budget_seconds):
            print_line(f"{label:<12}{figures}")
        seconds += min(trial.estimate, budget_seconds) * (seeds or 1)
    if len(rungs) > 1 or seeds:
        counts = {"rungs": len(rungs) if len(rungs) > 1 else None, "seeds": seeds}
        what = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
        print_line(f"\nall {what}: about {duration(seconds)} (estimated)")
    print_line("nothing was written")


def print_memory(
    recipe: Recipe, world: World, data: Path, skip_bad: bool, ranks: int, gpu: str | None
) -> None:
    """Print the estimated memory and time of a process; refuse what does not fit a GPU."""
    if recipe.rung:
        raise BadInput("--ranks: choose one model of the ladder by --rung")
    if gpu is not None:
        capacity(gpu)
    with TemporaryDirectory(prefix="regard-") as folder:
        out = Path(folder) / "run"
        run = prepare(recipe, out, world, data=data, skip_bad=skip_bad, processes=ranks)
        try:
            estimate, config, flops, uncounted = estimate_rank(run.job, ranks, gpu)
        finally:
            run.release()
    print_line(f"{'processes':<12}{ranks:,}, distributed.kind = {config.kind!r}")
    for label, size in estimate.lines():
        print_line(f"{label:<12}{size}")
    if uncounted:
        print_line(f"{'not counted':<12}activations of recurrent and convolutional layers")
    if gpu is not None:
        shorter = {
            'distributed.kind="fsdp"': ranks > 1 and not (config.sharded or config.exact),
            "more processes": config.sharded,
            "distributed.checkpoint_blocks=true": not config.checkpoint_blocks,
            "lower batches.tokens and higher batches.accumulate": True,
        }
        check_fit(estimate, gpu, shorter)
        print_line(f"{'fits':<12}{gpu}: {capacity(gpu) / GIB:,.1f} GiB are usable")
        if (time := estimate_seconds(flops, gpu, config)) is not None:
            print_line(f"{'a step':<12}at least {time[0]:.3g} s: {flops:.3g} FLOPs at {time[1]}")
    print_line("nothing was written")


def _count_lines(
    recipe: Recipe, trial: DryRun, world: World, budget_seconds: float
) -> Iterator[tuple[str, str]]:
    """Lines of a dry run, as pairs (label, figures)."""
    sizes = ", ".join(f"{name} {count:,}" for name, count in trial.sizes.items())
    yield task_of(recipe).unit, sizes
    yield "dropped", str(trial.dropped)
    if trial.long_texts:
        yield "long texts", trial.long_texts
    if trial.vocabulary:
        yield "vocabulary", " and ".join(f"{size:,}" for size in trial.vocabulary)
    if trial.labels:
        yield "labels", f"{trial.labels:,}"
    yield from trial.data.lines()
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
