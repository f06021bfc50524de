"""``regard train --dry-run``: everything is read and checked, a few steps are timed."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from regard.cli.io.console import OUT
from regard.ground.errors import BadInput
from regard.training.distributed import World
from regard.training.dry_run import DryRun, estimate_run
from regard.training.loop.events import duration
from regard.training.recipe import Recipe, task_of
from regard.training.run import prepare


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
        _show(_lines(described, trial, world, budget_seconds))
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


def _lines(
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


def _show(lines: Iterable[tuple[str, str]]) -> None:
    for name, figures in lines:
        OUT.print(f"{name:<12}{figures}", markup=False)
