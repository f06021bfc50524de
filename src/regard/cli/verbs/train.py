"""``regard train``: from a recipe to a trained model."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Exit

from regard.cli import formats
from regard.cli.io.console import print_result
from regard.experiments import options
from regard.experiments.options.training_runs import RunOptions

if TYPE_CHECKING:
    from regard.training.distributed import World


def train(
    recipe: options.RECIPE,
    runs: RunOptions,
    out: Annotated[Path | None, options.OUT_FOLDER] = None,
    table_format: formats.FORMAT = "text",
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
    from regard.cli.io.training_progress import TrainingProgress, stopped_by_signals
    from regard.experiments.training_session import TrainingSession

    session = TrainingSession.open(recipe, runs, out)
    with stopped_by_signals() as stop, one_message(session.world), TrainingProgress() as progress:
        result = session.run(progress, stop)
        if result is not None:
            print_result(result, table_format)
    if result is not None and not result.reached:
        raise Exit(1)


@contextmanager
def one_message(world: "World") -> Iterator[None]:
    """Let the first of several processes alone print that the loss has diverged."""
    from regard.training.loop.trainer import Diverged

    try:
        yield
    except Diverged as error:
        if world.is_leader:
            raise
        raise Exit(error.code) from None
