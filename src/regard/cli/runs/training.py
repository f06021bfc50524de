"""Training runs of the command line: started, shown, stopped by a signal, evaluated."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import typer
from rich.live import Live
from rich.text import Text

from regard.api import load
from regard.cli.io.console import ERR, note
from regard.cli.runs.scores import check_expected, show_scores, test_scores
from regard.data.files.fields import DropCounts
from regard.training.distributed import World
from regard.training.loop.events import EndEvent, Event, duration
from regard.training.recipe import Recipe
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
    """Collect Ctrl-C and a scheduler's SIGTERM; a second Ctrl-C interrupts at once."""

    def remember(number: int, frame: object) -> None:
        signals.append(number)
        signal.signal(signal.SIGINT, signal.default_int_handler)

    before = {number: signal.signal(number, remember) for number in (signal.SIGINT, signal.SIGTERM)}
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
