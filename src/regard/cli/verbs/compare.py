"""``regard compare``: two models on the same test sets, with paired significance tests."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from regard.cli import formats
from regard.cli.io.console import show_event
from regard.experiments import options


def compare(
    baseline: Annotated[
        str, Argument(metavar="A", help="Model folder, or id on the hub: the baseline.")
    ],
    system: Annotated[str, Argument(metavar="B", help="Model to compare with the baseline.")],
    recipe: Annotated[
        str, Option("--recipe", metavar="RECIPE", help="Recipe whose test sets are scored.")
    ],
    on_dev: options.ON_DEV = False,
    data: options.DATA = Path(),
    skip_bad: options.SKIP_BAD = False,
    *,
    runs: options.MeasureOptions,
    output: formats.TableOptions,
) -> None:
    """Compare two models by paired significance tests.

    For each metric: both scores, the difference B - A with its 95% interval, and two-sided
    p-values of the difference: paired bootstrap (1000 samples; none below 50 examples), approximate
    randomisation (10,000 trials) and, where each example is right or wrong, the exact test of
    McNemar. A recipe without test set is scored on its dev set. p-values are not corrected for the
    number of metrics.

    Example: regard compare runs/small/model runs/large/model --recipe tour --data runs/tour/corpus
    """
    from regard.experiments import comparison
    from regard.training.recipe_files import find

    compared = comparison.compare(
        baseline,
        system,
        recipe=find(recipe),
        data=data,
        on_dev=on_dev,
        skip_bad=skip_bad,
        batch_size=runs.batch_size,
        precision=runs.precision,
        device=runs.device,
        on_event=show_event,
    )
    output.show(compared)
