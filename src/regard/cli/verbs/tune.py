"""``regard tune``: hyper-parameter search over settings of a recipe."""

from pathlib import Path
from typing import Annotated, Literal

from typer import Exit, Option

from regard.cli import formats
from regard.cli.io.console import note
from regard.core.errors import FAILED
from regard.experiments import options


def tune(
    recipe: options.RECIPE,
    settings: Annotated[
        list[str] | None,
        Option(
            "--set",
            metavar="TABLE.KEY=VALUES",
            help="Values to try: a,b,c or low..high[:log][:points]; one value holds for all "
            "trials; repeatable.",
        ),
    ] = None,
    trials: Annotated[
        int | None,
        Option("--trials", min=1, help="Number of trials drawn at random; default: the grid."),
    ] = None,
    seed: options.SEED = 1,
    seeds: Annotated[
        int | None,
        Option(min=2, help="Number of runs of each trial, judged by their mean; see regard train."),
    ] = None,
    sampler: Annotated[
        Literal["tpe", "gp", "qmc"] | None,
        Option(help="Sampler of Optuna that chooses each trial; needs --trials."),
    ] = None,
    pruner: Annotated[
        Literal["median", "halving", "hyperband"] | None,
        Option(help="Pruner of Optuna that ends trials early that are worse than others."),
    ] = None,
    data: options.DATA = Path(),
    out: Annotated[Path | None, options.OUT_FOLDER] = None,
    resume: Annotated[bool, Option("--resume", help="Continue a stopped search.")] = False,
    budget: Annotated[
        str | None,
        Option("--budget", metavar="TIME", help="Maximum training time of each trial: 90s, 30m."),
    ] = None,
    skip_bad: options.SKIP_BAD = False,
    log: options.LOG = None,
    device: options.DEVICE = None,
    *,
    output: formats.TableOptions,
) -> None:
    """Search for the best settings of a recipe.

    Each trial is a training run with other values of the keys of --set: of a list (a,b,c), or of a
    range (1e-4..1e-3, on a logarithmic scale with :log). Without --trials, all combinations are
    tried, and a range needs a number of points (1e-4..1e-3:log:4); with --trials N, values are
    drawn at random. Trials are judged by the best evaluation on the development set
    (train.metric); test sets are not scored. --out, by default runs/RECIPE-tune, has a folder for
    each trial, and the table in trials.json; --resume continues there, also with more trials.

    With --seeds N, each trial is trained with the seeds train.seed, train.seed + 1, …, and judged
    by the mean of their values; the model of the best trial is the one of its best seed.

    With --sampler, Optuna chooses each trial by the results of earlier ones (tpe, gp) or evenly
    (qmc); with --pruner, it ends a trial whose evaluations are worse than those of others at the
    same step. They need the extra regard[tune]; trials are in trials.db, and several processes
    that are started with --resume share them.

    Trials are listed with the best first; one that diverges is listed last. The last line names
    the folder of the best model.

    Example: regard tune mine.toml --set optimiser.rate=1e-4..1e-2:log --trials 8 --out runs/search
    """
    from regard.cli.io.training_progress import TrainingProgress, stopped_by_signals
    from regard.experiments import tuning as experiments
    from regard.experiments.options.training_runs import parse_duration

    with stopped_by_signals() as stop, TrainingProgress() as progress:
        tuning = experiments.tune(
            recipe,
            settings or (),
            data,
            out,
            trials=trials,
            seed=seed,
            seeds=seeds,
            sampler=sampler,
            pruner=pruner,
            resume=resume,
            skip_bad=skip_bad,
            budget=parse_duration(budget),
            loggers=log or (),
            device=device,
            on_event=progress,
            stop=stop,
        )
    output.show(tuning)
    best = tuning.best
    if best.value is None:
        note("no trial has a result; try lower learning rates")
        raise Exit(FAILED)
    chosen = " ".join(f"{name}={value}" for name, value in best.settings.items())
    note(f"best: {tuning.model}  {chosen}")
