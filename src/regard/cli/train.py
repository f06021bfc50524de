"""``regard train``: a recipe to a trained folder."""

import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from regard.api import load
from regard.cli.console import DEVICE, duration, note
from regard.cli.dry_run import dry_run
from regard.cli.evaluate import DATA, RECIPE, SKIP_BAD, keeps, show_scores, test_scores
from regard.cli.ladder import Climb, climb
from regard.cli.progress import Progress
from regard.cli.seeds import sow
from regard.data.sources import DropCounts
from regard.ground.errors import BadInput
from regard.training.checkpoint import RunProgress as Done
from regard.training.distributed import World
from regard.training.loop import train as train_loop
from regard.training.loop.events import EndEvent, StartEvent
from regard.training.metrics_log import MetricsLog
from regard.training.recipe import Recipe, read
from regard.training.recipe_files import find
from regard.training.run import Run, prepare

UNITS = {"s": 1, "m": 60, "h": 3600}


def train(
    recipe: RECIPE,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="TABLE.KEY=VALUE", help="Change the recipe; repeatable."),
    ] = None,
    data: DATA = Path(),
    out: Annotated[
        Path | None, typer.Option(help="Where the run goes; by default runs/RECIPE.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the last checkpoint, bit for bit.")
    ] = False,
    budget: Annotated[
        str | None, typer.Option(help="Stop after this time: 90s, 30m or 2h.")
    ] = None,
    skip_bad: SKIP_BAD = False,
    deterministic: Annotated[
        bool, typer.Option("--deterministic", help="Bit-exact on CUDA too; slower.")
    ] = False,
    only: Annotated[
        list[str] | None,
        typer.Option("--rung", metavar="NAME", help="Of a ladder only this one; repeatable."),
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(min=2, help="Train so many times, from train.seed on; print mean and spread."),
    ] = None,
    try_only: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Check everything, time a few steps, print counts; write nothing."
        ),
    ] = False,
    device: DEVICE = None,
) -> None:
    """Train a model as a recipe says, and compare it with the scores the recipe expects.

    Ctrl-C finishes the step, saves, and exits with 130; --resume goes on. On several devices:
    torchrun --nproc-per-node 2 -m regard train ...

    A recipe with rungs is a ladder: all its models are trained, and one table compares them; what
    --set says holds for all of them. Rungs may be trained apart, with --rung; --resume then goes
    through all of them for the table.

    With --seeds, each run has a folder of its own (seed-1, ...); --resume goes on with those that
    are not done. The mean is compared with the expected score. A --budget is that of each run.

    With --dry-run, recipe, data and start are read and checked; examples, bad lines, vocabulary,
    parameters, batches and an estimate of the time are printed, and no run folder is made.

    Example: regard train tour --data runs/tour/corpus --out runs/mine --budget 2m
    """
    path = find(recipe)
    changes = [*(settings or ()), *(["train.deterministic=true"] if deterministic else ())]
    described = read(path, changes)
    rungs = len(described.rung)
    if only:
        described = described.only(only)
    seconds = float("inf") if budget is None else parse_duration(budget)
    world = World.join(device)
    options: dict[str, Any] = {
        "data": data,
        "resume": resume,
        "skip_bad": skip_bad,
        "budget_seconds": seconds,
    }
    promised = not changes and budget is None
    folder = out or Path("runs") / path.stem
    with world.together(typer.Exit):
        if try_only:
            dry_run(described, world, seeds, **options)
            return
        each = partial(trained, world=world, **options)
        if seeds is not None:
            kept = sow(described, seeds, folder, world, each, data, promised, skip_bad)
        elif described.rung:
            whole = len(described.rung) == rungs
            ladder = Climb(described, folder, world, each, data, resume, skip_bad)
            kept = climb(ladder, promised, whole)
        else:
            run = trained(described, folder, world=world, **options)
            kept = not world.is_leader or judge_on_test(run, described, data, promised, skip_bad)
    if not kept:
        raise typer.Exit(1)


def trained(recipe: Recipe, folder: Path, *, world: World, resume: bool, **options: Any) -> Run:
    """A recipe run to its end, its model written; a signal saves and exits."""
    asked: list[int] = []
    options["asked_to_stop"] = lambda: bool(asked)
    run = prepare(recipe, folder, world, resume=resume, **options)
    warmup, steps = recipe.optimiser.warmup, recipe.train.steps
    if warmup >= steps and world.is_leader:
        note(f"optimiser.warmup: {warmup:,} steps of {steps:,}: the rate never reaches its height")
    with signals_into(asked):
        ended = follow(run, resume=resume)
    if ended.reason == "asked":
        raise typer.Exit(128 + (asked or [signal.SIGTERM])[0])  # or another rank was signalled
    if world.is_leader:
        leave_behind(run, ended.progress)
    return run


def follow(run: Run, *, resume: bool = False, quiet: bool = False) -> EndEvent:
    """Run the loop to its end: every event to the journal and to the screen."""
    job = run.job
    journal: MetricsLog | None = None
    with Progress(job.recipe.train.steps, quiet=quiet or not job.world.is_leader) as progress:
        for event in train_loop(job, resume=resume):
            if isinstance(event, StartEvent) and job.world.is_leader:
                if resume and not event.progress.step:
                    note(f"{run.out}: nothing to resume yet, so this is the beginning")
                if run.lock is not None and not run.lock.held:
                    note(f"{run.out}: this file system has no locks; start no second run there")
                journal = MetricsLog(run.out, after_step=event.progress.step)
            if journal is not None:
                journal.write(event)
            progress.show(event)
    if run.dropped and job.world.is_leader:
        note(f"left out: {run.dropped}")
    assert isinstance(event, EndEvent)
    return event


def leave_behind(run: Run, progress: Done) -> None:
    """Write the model folder and say what is in it."""
    said = run.finish(progress)
    note(f"{run.model_folder}: {said}, after {duration(progress.seconds)} of training")


def judge_on_test(
    run: Run, recipe: Recipe, data: Path, promised: bool, skip_bad: bool = False
) -> bool:
    """Scores on the test set, if there is one; false if a promise was made and not kept."""
    if recipe.data.test is None:
        return True
    model = load(run.model_folder, str(run.job.world.device), precision="auto")
    tables = test_scores(model, recipe, data, DropCounts() if skip_bad else None)
    show_scores(tables, model)
    return not promised or recipe.expect is None or keeps(recipe.expect, tables["test"])


@contextmanager
def signals_into(asked: list[int]) -> Iterator[None]:
    """Remember Ctrl-C or a scheduler's SIGTERM; a second Ctrl-C is not held back."""

    def remember(number: int, frame: object) -> None:
        asked.append(number)
        signal.signal(signal.SIGINT, signal.default_int_handler)

    before = {number: signal.signal(number, remember) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def parse_duration(text: str) -> float:
    """Seconds in 90s, 30m, 2h or 1.5h."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh])", text.strip())
    if not found:
        raise BadInput(f"--budget {text}: write 90s, 30m or 2h")
    return float(found[1]) * UNITS[found[2]]
