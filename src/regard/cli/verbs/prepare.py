"""``regard prepare``: the data of a recipe, tokenised once for many runs."""

from pathlib import Path
from typing import Annotated

from typer import Option

from regard.cli.io.console import print_result
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
    from regard.cli.io.training_progress import TrainingProgress
    from regard.experiments import preparation
    from regard.training.recipe_files import find

    with TrainingProgress() as progress:
        prepared = preparation.prepare(
            find(recipe),
            data,
            out,
            settings=settings or (),
            workers=workers,
            ray=ray,
            deduplicate=deduplicate,
            skip_bad=skip_bad,
            on_event=progress,
        )
    print_result(prepared, "json" if as_json else "text")
