"""What a training run would need: counts, time and memory, estimated without training."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar

from regard.core.errors import ArgumentName, BadArgument, BadInput
from regard.experiments.result import ExperimentResult, OutputTable, plain_table
from regard.training.distributed import World
from regard.training.dry_run import DryRun, estimate_rank, estimate_run
from regard.training.loop.events import duration
from regard.training.memory_estimate import GIB, capacity, check_fit, estimate_seconds
from regard.training.recipe import Recipe, task_of
from regard.training.run import prepare

Figures = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Estimate(ExperimentResult):
    """Figures with their labels, for each rung of a ladder, and the time of all runs together."""

    reached: ClassVar[bool] = True
    rungs: Mapping[str, Figures]
    total: str = ""

    def tables(self) -> list[OutputTable]:
        return [plain_table(("figure", "value"), figures) for figures in self.rungs.values()]

    def text(self, width: int | None = None) -> Iterator[str]:
        for number, (name, figures) in enumerate(self.rungs.items()):
            if name:
                yield from [""] * bool(number)
                yield name
            yield from (f"{label:<12}{figure}" for label, figure in figures)
        if self.total:
            yield ""
            yield self.total
        yield "nothing was written"


def estimate_training(
    recipe: Recipe,
    world: World,
    data: Path,
    *,
    seeds: int | None = None,
    skip_bad: bool = False,
    budget_seconds: float = inf,
) -> Estimate:
    """Counts and an estimated training time of a recipe, or of each rung of a ladder."""
    if world.size > 1:
        raise BadInput("times are estimated in one process; start it without torchrun")
    rungs = {rung.name: recipe.at(rung) for rung in recipe.rung} or {"": recipe}
    estimates, seconds = dict[str, Figures](), 0.0
    for name, described in rungs.items():
        with TemporaryDirectory(prefix="regard-") as folder:
            run = prepare(described, Path(folder) / "run", world, data=data, skip_bad=skip_bad)
            try:
                trial = estimate_run(run, data, skip_bad)
            finally:
                run.release()
        estimates[name] = [*_counts(described, trial, world, budget_seconds)]
        seconds += min(trial.estimate, budget_seconds) * (seeds or 1)
    if len(rungs) == 1 and not seeds:
        return Estimate(estimates)
    counts = {"rungs": len(rungs) if len(rungs) > 1 else None, "seeds": seeds}
    what = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    return Estimate(estimates, f"all {what}: about {duration(seconds)} (estimated)")


def estimate_process(
    recipe: Recipe, world: World, data: Path, ranks: int, *, skip_bad: bool, gpu: str | None
) -> Estimate:
    """Estimated memory and time of each of several processes; what does not fit is an error."""
    if recipe.rung:
        raise BadArgument(("choose one model of the ladder by ", ArgumentName("rung")), key="ranks")
    if gpu is not None:
        capacity(gpu)
    with TemporaryDirectory(prefix="regard-") as folder:
        out = Path(folder) / "run"
        run = prepare(recipe, out, world, data=data, skip_bad=skip_bad, processes=ranks)
        try:
            estimate, config, flops, uncounted = estimate_rank(run.job, ranks, gpu)
        finally:
            run.release()
    figures = [("processes", f"{ranks:,}, distributed.kind = {config.kind!r}"), *estimate.lines()]
    if uncounted:
        figures.append(("not counted", "activations of recurrent and convolutional layers"))
    if gpu is not None:
        shorter = {
            'distributed.kind="fsdp"': ranks > 1 and not (config.sharded or config.exact),
            "more processes": config.sharded,
            "distributed.checkpoint_blocks=true": not config.checkpoint_blocks,
            "lower batches.tokens and higher batches.accumulate": True,
        }
        check_fit(estimate, gpu, shorter)
        figures.append(("fits", f"{gpu}: {capacity(gpu) / GIB:,.1f} GiB are usable"))
        if (time := estimate_seconds(flops, gpu, config)) is not None:
            figures.append(("a step", f"at least {time[0]:.3g} s: {flops:.3g} FLOPs at {time[1]}"))
    return Estimate({"": figures})


def _counts(
    recipe: Recipe, trial: DryRun, world: World, budget_seconds: float
) -> Iterator[tuple[str, str]]:
    """Figures of a dry run."""
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
    if remark := recipe.optimiser.remark(trial.steps):
        yield "warm-up", remark
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
