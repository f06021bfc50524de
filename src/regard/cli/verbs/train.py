"""``regard train``: from a recipe to a trained model."""

import re
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from regard.cli.options import DATA, DEVICE, OUT_FOLDER, RECIPE, RESUME, SKIP_BAD
from regard.ground.errors import BadInput

UNITS = {"s": 1, "m": 60, "h": 3600}


def train(
    recipe: RECIPE,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="TABLE.KEY=VALUE", help="Change the recipe; repeatable."),
    ] = None,
    data: DATA = Path(),
    out: Annotated[Path | None, OUT_FOLDER] = None,
    resume: RESUME = False,
    budget: Annotated[
        str | None, typer.Option(metavar="TIME", help="Stop after 90s, 30m, 2h or the like.")
    ] = None,
    skip_bad: SKIP_BAD = False,
    deterministic: Annotated[
        bool, typer.Option("--deterministic", help="Bit-exact on CUDA too; slower.")
    ] = False,
    rung: Annotated[
        list[str] | None,
        typer.Option("--rung", metavar="NAME", help="Train one rung of a ladder; repeatable."),
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(min=2, help="Train so often, from train.seed on; print mean and deviation."),
    ] = None,
    trial: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Check everything, time a few steps, print counts; write nothing."
        ),
    ] = False,
    device: DEVICE = None,
) -> None:
    """Train a model by a recipe and check the expected score.

    The run is written to --out, by default runs/RECIPE. Ctrl-C finishes the step, saves a
    checkpoint and exits with code 130; --resume continues. On several devices: torchrun
    --nproc-per-node 2 -m regard train ...

    A recipe with rungs is a ladder: all its models are trained and compared in one table; --set
    changes all of them. Rungs may be trained separately, with --rung; --resume then goes through
    all of them for the table.

    With --seeds, each run has its own folder (seed-1, ...); --resume continues with unfinished
    runs. The mean is compared with the expected score. A --budget is that of each run.

    With --dry-run, the recipe, its data and the initial model are read and checked; counts of
    examples, dropped lines, vocabulary, parameters and batches and an estimate of the time are
    printed, and no run folder is made.

    Example: regard train tour --data runs/tour/corpus --out runs/mine --budget 2m
    """
    from regard.cli.training_runs import dry_run, evaluate_run, train_run, train_seeds
    from regard.studies.ladder import LadderRun, train_ladder
    from regard.training.distributed import World
    from regard.training.recipe import read
    from regard.training.recipe_files import find

    path = find(recipe)
    changes = [*(settings or ()), *(["train.deterministic=true"] if deterministic else ())]
    described = read(path, changes)
    rungs = len(described.rung)
    if rung:
        described = described.only(rung)
    seconds = float("inf") if budget is None else parse_duration(budget)
    world = World.join(device)
    options: dict[str, Any] = {"data": data, "resume": resume, "skip_bad": skip_bad}
    options["budget_seconds"] = seconds
    check = not changes and budget is None  # the expected score is that of the recipe as it is
    folder = out or Path("runs") / path.stem
    with world.together(typer.Exit):
        if trial:
            dry_run(described, world, seeds, **options)
            return
        train_one = partial(train_run, world=world, **options)
        if seeds is not None:
            reached = train_seeds(described, seeds, folder, world, train_one, data, check, skip_bad)
        elif described.rung:
            whole = len(described.rung) == rungs
            ladder = LadderRun(described, folder, world, train_one, data, resume, skip_bad)
            reached = train_ladder(ladder, check, whole)
        else:
            run = train_run(described, folder, world=world, **options)
            reached = not world.is_leader or evaluate_run(run, described, data, check, skip_bad)
    if not reached:
        raise typer.Exit(1)


def parse_duration(text: str) -> float:
    """Seconds in 90s, 30m, 2h or 1.5h."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh])", text.strip())
    if not match:
        raise BadInput(f"--budget {text}: not a time such as 90s, 30m or 2h")
    return float(match[1]) * UNITS[match[2]]
