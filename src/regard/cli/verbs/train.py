"""``regard train``: from a recipe to a trained model."""

import re
from functools import partial
from pathlib import Path
from typing import Annotated

from typer import Exit, Option

from regard.cli import options
from regard.ground.errors import BadInput

UNITS = {"s": 1, "m": 60, "h": 3600}


def train(
    recipe: options.RECIPE,
    settings: options.SETTINGS = None,
    data: options.DATA = Path(),
    out: Annotated[Path | None, options.OUT_FOLDER] = None,
    resume: options.RESUME = False,
    budget: options.BUDGET = None,
    skip_bad: options.SKIP_BAD = False,
    prepared: Annotated[
        Path | None,
        Option("--prepared", metavar="DIR", help="Read the data that regard prepare wrote here."),
    ] = None,
    deterministic: Annotated[
        bool, Option("--deterministic", help="Train bit-exactly on CUDA too; slower.")
    ] = False,
    rung: Annotated[
        list[str] | None,
        Option("--rung", metavar="NAME", help="Rung of a ladder to train; repeatable."),
    ] = None,
    seeds: Annotated[
        int | None, Option(min=2, help="Number of runs, with seeds train.seed, train.seed + 1, …")
    ] = None,
    trial: Annotated[
        bool, Option("--dry-run", help="Check recipe and data, time a few steps; write nothing.")
    ] = False,
    log: options.LOG = None,
    watch: Annotated[
        list[str] | None,
        Option(metavar="NAME", help="Report at each evaluation: heads, numbers; repeatable."),
    ] = None,
    device: options.DEVICE = None,
    table_format: options.FORMAT = "text",
) -> None:
    """Train a model by a recipe and check the expected score.

    The run is written to --out, by default runs/RECIPE, and its model to the folder model in it.
    Ctrl-C finishes the step, saves a checkpoint and the best model so far, and exits with code 130;
    --resume continues. A loss that explodes ends the run with code 1, and the best model so far
    stays. On several devices: torchrun --nproc-per-node 2 -m regard train ...

    A recipe with rungs is a ladder: all its models are trained and compared in one table; --set
    changes all of them. --rung trains single rungs; a last run with --resume and without --rung
    trains the others and prints the table.

    With --seeds, each run has its own folder (seed-1, ...); --resume continues unfinished runs.
    Means and standard deviations are printed, and the mean is compared with the expected score;
    the table of a ladder has the 95% interval of each mean, too.
    --budget holds for each run.

    With --watch heads, what each attention head does is reported before the first step and at each
    evaluation, on a few inputs of the development set, and for causal models on random tokens that
    follow twice: a line of the file watch/heads.jsonl in the run folder, with the step, the dev
    loss and the seconds that the report took. regard formation RUN shows it. --watch numbers writes
    how the vectors of the numbers 0, 1, 2, ... divide into frequencies, to watch/numbers.jsonl.

    With --dry-run, the recipe, its data and the initial model are read and checked; counts of
    examples, labels, dropped lines, duplicates, vocabulary, parameters and batches, examples that
    two sets share, and an estimate of the time are printed, and no run folder is made.

    Example: regard train tour --data runs/tour/corpus --out runs/mine --budget 2m
    """
    from regard.cli.training_runs import (
        dry_run,
        evaluate_run,
        named_watches,
        train_run,
        train_seeds,
    )
    from regard.studies.ladder import LadderRun, train_ladder
    from regard.training.distributed import World
    from regard.training.loggers import check_loggers
    from regard.training.loop.trainer import Diverged
    from regard.training.recipe import read
    from regard.training.recipe_files import find

    loggers, watches = check_loggers(log or ()), named_watches(watch or ())
    path = find(recipe)
    changes = [*(settings or ()), *(["train.deterministic=true"] if deterministic else ())]
    described = read(path, changes)
    rungs = len(described.rung)
    if rung:
        described = described.only(rung)
    seconds = float("inf") if budget is None else parse_duration(budget)
    world = World.join(device)
    check = not changes and budget is None  # the expected score holds for the unchanged recipe
    folder = out or Path("runs") / path.stem
    with world.together(Exit, Diverged):
        if trial:
            options.refuse({"--prepared": prepared}, "cannot be used with --dry-run")
            dry_run(described, world, seeds, data, resume, skip_bad, seconds)
            return
        train_one = partial(
            train_run,
            world=world,
            resume=resume,
            data=data,
            skip_bad=skip_bad,
            prepared=prepared,
            budget_seconds=seconds,
            loggers=loggers,
            watch=watches,
        )
        if described.rung:
            whole = len(described.rung) == rungs
            ladder = LadderRun(
                described, folder, world, train_one, data, resume, skip_bad, table_format, seeds
            )
            reached = train_ladder(ladder, check, whole)
        elif seeds is not None:
            reached = train_seeds(
                described, seeds, folder, world, train_one, data, check, skip_bad, table_format
            )
        else:
            run = train_one(described, folder)
            reached = not world.is_leader or evaluate_run(
                run, described, data, check, skip_bad, table_format
            )
    if not reached:
        raise Exit(1)


def parse_duration(text: str) -> float:
    """Number of seconds in a text such as 90s, 30m, 2h or 1.5h."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh])", text.strip())
    if not match:
        raise BadInput(f"--budget {text}: not a time such as 90s, 30m or 2h")
    return float(match[1]) * UNITS[match[2]]
