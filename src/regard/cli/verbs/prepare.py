"""``regard prepare``: the data of a recipe, tokenised once for many runs."""

from functools import partial
from pathlib import Path
from typing import Annotated

from typer import Option

from regard.cli.io.console import print_line
from regard.core.errors import BadInput
from regard.core.files import json_line
from regard.experiments import options


def prepare(
    recipe: options.RECIPE,
    settings: options.SETTINGS = None,
    data: options.DATA = Path(),
    out: Annotated[Path | None, options.OUT_FOLDER] = None,
    workers: Annotated[
        int | None,
        Option("--workers", min=1, help="Number of processes that tokenise.", show_default="none"),
    ] = None,
    ray: options.RAY = None,
    deduplicate: Annotated[
        bool, Option("--deduplicate", help="Leave out training examples that occur before.")
    ] = False,
    skip_bad: options.SKIP_BAD = False,
    as_json: options.JSON = False,
) -> None:
    """Tokenise the data of a recipe, for training with --prepared.

    The tokenizer is learned, and the training and development sets are written to --out as token
    ids, by default prepared/RECIPE. Files are read as streams: memory does not depend on their
    size. The bytes that are written do not depend on --workers or --ray. Files are complete or not
    there; the same command, run again, keeps what is complete.

    Numbers of examples, duplicates and tokens, and lengths, are printed for each set. Duplicates
    are examples with the tokens of an earlier one (of a corpus of data.mix). With --deduplicate the
    first of them stays, and the others are left out of the training set.

    Example: regard prepare tour --data runs/tour/corpus --out prepared/tour --workers 2
    """
    from regard.core.workers import RayActors, StartWorkers, WorkerProcesses
    from regard.training.prepared_data import prepare_data, set_title
    from regard.training.recipe import read
    from regard.training.recipe_files import find

    path = find(recipe)
    described = read(path, settings or ())
    if described.rung:
        raise BadInput(f"{path}: is a ladder; prepare the recipe of one model")
    start_workers: StartWorkers | None = None
    if ray is not None:
        start_workers = partial(RayActors, ray, count=workers, use_gpu=False)
    elif workers is not None:
        start_workers = partial(WorkerProcesses, workers)
    folder = out or Path("prepared") / path.stem
    statistics = prepare_data(
        described,
        folder,
        data=data,
        skip_bad=skip_bad,
        start_workers=start_workers,
        deduplicate=deduplicate,
    )
    for name, counts in statistics.items():
        if as_json:
            print(json_line({"set": name, **vars(counts)}), end="")
        else:
            for line in counts.lines:
                print_line(f"{set_title(name)}: {line}")
