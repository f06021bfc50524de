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
    branch: Annotated[
        Path | None,
        Option("--branch", metavar="RUN", help="Go on from a checkpoint of this run; see --at."),
    ] = None,
    at: Annotated[
        int | None, Option("--at", min=0, metavar="STEP", help="The step of that checkpoint.")
    ] = None,
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
    ranks: Annotated[
        int | None, Option(min=1, help="With --dry-run: memory of each of N processes.")
    ] = None,
    gpu: Annotated[
        str | None, Option(metavar="NAME", help="With --ranks: refuse what does not fit this GPU.")
    ] = None,
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

    With --branch RUN and --at STEP, training goes on from a checkpoint of RUN, in the new folder
    --out: the recipe is that of RUN, with keys of [optimiser] and [train] changed by --set. Without
    a change the branch repeats RUN bit for bit; regard curves RUN BRANCH shows where the two part.
    A run keeps checkpoints for that by --set train.keep_every=STEPS.

    With --watch heads, what each attention head does is reported before the first step and at each
    evaluation, on a few inputs of the development set, and for causal models on random tokens that
    follow twice: a line of the file watch/heads.jsonl in the run folder, with the step, the dev
    loss and the seconds that the report took. regard formation RUN shows it. --watch numbers writes
    how the vectors of the numbers 0, 1, 2, ... divide into frequencies, to watch/numbers.jsonl.

    With --dry-run, the recipe, its data and the initial model are read and checked; counts of
    examples, labels, dropped lines, duplicates, vocabulary, parameters and batches, examples that
    two sets share, and an estimate of the time are printed, and no run folder is made. With --ranks
    the memory of each of that many processes is estimated instead (bf16, the recipe's
    [distributed]), and with --gpu, such as h100-80g, the time of a step; a step that does not fit
    is refused.

    Example: regard train tour --data runs/tour/corpus --out runs/mine --budget 2m
    """
    from regard.cli.training_runs import (
        dry_run,
        evaluate_run,
        named_watches,
        print_memory,
        train_run,
        train_seeds,
    )
    from regard.ground.files import is_empty
    from regard.studies.ladder import LadderRun, train_ladder
    from regard.training.branch import branch_run
    from regard.training.distributed import World, is_restarted
    from regard.training.loggers import check_loggers
    from regard.training.loop.trainer import Diverged
    from regard.training.recipe import read, task_of
    from regard.training.recipe_files import find

    if ranks is not None and not trial:
        raise BadInput("--ranks: estimates memory; use it with --dry-run")
    if gpu is not None and ranks is None:
        raise BadInput("--gpu: give the number of processes, too: --ranks")
    loggers, watches = check_loggers(log or ()), named_watches(watch or ())
    path = find(recipe)
    changes = [*(settings or ()), *(["train.deterministic=true"] if deterministic else ())]
    described = read(path, changes)
    rungs = len(described.rung)
    if rung:
        described = described.only(rung)
    check_branch(branch, at, out, single=not rungs and seeds is None and not trial)
    seconds = float("inf") if budget is None else parse_duration(budget)
    world = World.join(device, described.distributed.timeout)
    resume = resume or is_restarted()  # by torchrun --max-restarts
    # The expected score holds for the unchanged recipe.
    unchanged = not changes and budget is None and branch is None
    folder = out or Path("runs") / path.stem
    with world.together(Exit, Diverged):
        if trial and ranks is not None:
            print_memory(described, world, data, skip_bad, ranks, gpu)
            return
        if trial:
            options.refuse({"--prepared": prepared}, "cannot be used with --dry-run")
            dry_run(described, world, seeds, data, resume, skip_bad, seconds)
            return
        if branch is not None and at is not None and (not resume or is_empty(folder)):
            task_of(described).check_data(data, skip_bad)
            if world.is_leader:
                branch_run(branch, at, folder, described)
            world.barrier()
        train_one = partial(
            train_run,
            world=world,
            resume=resume or branch is not None,
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
            reached = train_ladder(ladder, unchanged, whole)
        elif seeds is not None:
            reached = train_seeds(
                described, seeds, folder, world, train_one, data, unchanged, skip_bad, table_format
            )
        else:
            run = train_one(described, folder)
            reached = not world.is_leader or evaluate_run(
                run, described, data, unchanged, skip_bad, table_format
            )
    if not reached:
        raise Exit(1)


def check_branch(branch: Path | None, at: int | None, out: Path | None, *, single: bool) -> None:
    """Refuse options of a branch that miss each other, and several runs at once."""
    if (branch is None) != (at is None):
        given, missing = ("--branch", "--at STEP") if at is None else ("--at", "--branch RUN")
        raise BadInput(f"{given}: needs {missing}, too")
    if branch is None:
        return
    if out is None:
        raise BadInput("--branch: name the folder of the new run: --out DIR")
    if not single:
        raise BadInput("--branch: trains one run: not a ladder, --seeds or --dry-run")


def parse_duration(text: str) -> float:
    """Number of seconds in a text such as 90s, 30m, 2h or 1.5h."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh])", text.strip())
    if not match:
        raise BadInput(f"--budget {text}: not a time such as 90s, 30m or 2h")
    return float(match[1]) * UNITS[match[2]]
