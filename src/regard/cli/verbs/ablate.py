"""``regard ablate``: the score of a model without each of its heads or layers, or with edits."""

from pathlib import Path

from regard.cli import formats
from regard.cli.io.console import show_event, write_drawings, write_page
from regard.core.errors import BadInput
from regard.experiments import options
from regard.experiments.options.measuring import AblationOptions


def ablate(
    model: options.MODEL,
    recipe: options.RECIPE,
    how: AblationOptions,
    data: options.DATA = Path(),
    html: formats.HTML = None,
    svg: formats.SVG = None,
    out: options.OUT_FILE = None,
    resume: options.RESUME = False,
    *,
    runs: options.MeasureOptions,
    output: formats.TableOptions,
) -> None:
    """Score a model without each of its heads or layers.

    Prints the metric of the recipe for the whole model, then with each head off, each layer off
    (--layers), or each file of edits applied (--edits FILE), and what the metric loses by it, the
    highest loss first. Heads and layers are counted from 0. A head that is off adds nothing to the
    output of its attention; a layer that is off adds nothing to the states.

    The metric is expect.metric, or train.metric, or the first one of the task, on the dev set of
    the recipe, also one that is held out from train; with --test, on the test set. --svg draws
    losses by layer and head; for several kinds of attention, in a file each (FILE-NAME.svg).

    With --out FILE, the results are also written as JSON lines; with --resume, to FILE.partial as
    they come, and the same command continues after them.

    Example: regard ablate runs/tour/model tour --data runs/tour/corpus --limit 100
    """
    from regard.experiments import ablation_runs
    from regard.training.recipe_files import find

    if svg is not None and how.edits:
        raise BadInput("--svg: files of edits have no layers and heads to draw; leave it out")
    result = ablation_runs.ablate(
        model, find(recipe), how, runs, data=data, out=out, resume=resume, on_event=show_event
    )
    output.show(result)
    write_page(html, result.ablation.html)
    if svg is not None:
        write_drawings(svg, result.ablation.drawings())
