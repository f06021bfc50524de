"""``regard prune``: attention heads that a model does not need, and a model without them."""

from pathlib import Path
from typing import Annotated

from regard.cli import formats
from regard.cli.io.console import print_tables, show_event, write_drawings, write_page
from regard.experiments import options
from regard.experiments.options.measuring import PruningOptions


def prune(
    model: options.MODEL,
    recipe: options.RECIPE,
    settings: options.SETTINGS = None,
    data: options.DATA = Path(),
    *,
    heads: PruningOptions,
    out: Annotated[Path | None, options.OUT_FOLDER] = None,
    html: formats.HTML = None,
    svg: formats.SVG = None,
    device: options.DEVICE = None,
    output: formats.TableOptions,
) -> None:
    """Remove the attention heads that a model needs least.

    Without --share, prints the curve: the score of the model with 10% to 90% of the heads removed,
    for encoder, decoder and cross-attention on their own and for all heads together, beside random
    orders of removal. The score is the metric of the recipe on its dev set, also one that is held
    out from train.

    Importance is the mean absolute gradient of the loss with respect to a gate of the head (Michel
    et al., 2019); --by-layer divides it by its norm in each layer, as they do; with --rounds 20, it
    is measured again after each 5% of the heads. With --method gates, gates are learned with a
    penalty on open ones (Voita et al., 2019), while the weights of the model stay; heads go in the
    order of their gates. --train-weights 1e-4 trains the weights as well, as they do: the model
    adapts while gates close. Then the heads whose gates are closed go, unless --share says how
    many; the first row is the score of the trained model with all its heads. A gate needs about 44
    steps of 16 inputs to close.

    --svg draws each curve, several of them in a file each (FILE-NAME.svg).

    --out writes the model without the share of heads as a folder that all verbs read, and prints
    parameters and times of both models. Other formats cannot express such a model.

    --compare-training trains a model of the same heads by the recipe, from random weights, and
    prints its score beside that of the pruned model: what the heads that were there cost. If the
    model was trained with --set, repeat it here. A run that was stopped there is resumed.

    Example: regard prune runs/tour/model tour --data runs/tour/corpus --share 0.2 --out runs/less
    """
    from regard.cli.io.training_progress import TrainingProgress, stopped_by_signals
    from regard.experiments.pruning_runs import PruningSession

    form = output.format
    pruning = PruningSession.open(
        model, recipe, settings or (), data, heads, out=out, device=device, on_event=show_event
    )
    pruned = pruning.run()
    output.show(pruned)
    report = pruned.report
    write_page(html, report.html)
    if svg is not None:
        write_drawings(svg, {name: chart.svg() for name, chart in report.charts.items()})
    if heads.compare_training is not None:
        with stopped_by_signals() as stop, TrainingProgress() as progress:
            compared = pruning.compare_training(pruned, progress, stop)
        print_tables([compared], form, after=len(pruned.tables()))
