"""``regard recency``: gradient norms by distance, of four small classifiers or your own models."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Context, Option

from regard.cli import formats
from regard.cli.declare import flags
from regard.cli.io.console import show_event, write_page
from regard.core.flags import refuse
from regard.experiments import options


def recency(
    context: Context,
    model: Annotated[
        str | None, Argument(metavar="MODEL", help="Classifier or language model to measure.")
    ] = None,
    file: options.FILE = "-",
    compare: Annotated[
        list[str] | None, Option(metavar="MODEL", help="Another model to compare with; repeatable.")
    ] = None,
    out: Annotated[Path, options.OUT_FOLDER] = Path("runs/recency"),
    seeds: Annotated[
        int, Option(min=1, help="Number of runs of each classifier, with different seeds.")
    ] = 3,
    quick: options.QUICK = False,
    html: formats.HTML = None,
    max_length: options.MAX_LENGTH = None,
    device: options.DEVICE = None,
    *,
    output: formats.TableOptions,
) -> None:
    """Measure how strongly a model depends on distant words.

    Prints the norm of the gradient of the final state (the state that is classified, or predicts
    the next word) with respect to each word, by the distance of the word from the end. With MODEL,
    the texts are the lines of FILE, and an untrained model of the same architecture is measured
    too; --compare adds other models.

    Without MODEL, four small classifiers (RNN and LSTM with their last state, LSTM with attention,
    Transformer) are trained on subject-verb agreement. The table shows accuracy by number of
    attractors; the charts in --out show gradient norms before and after training.

    Example: regard recency --out runs/recency --seeds 3
    """
    from regard.experiments.studies import study_list

    if model is None:
        refuse(flags(context, "html", "max_length", "compare"), "needs MODEL")
        output.show(
            study_list.train_recency(
                out, seeds=seeds, quick=quick, device=device, on_event=show_event
            )
        )
        return
    refuse(flags(context, "out", "seeds", "quick"), "cannot be used with MODEL")
    models, runs = [model, *(compare or ())], options.LoadOptions(device=device)
    norms, report = study_list.measure_recency(models, file, max_length, runs)
    output.show(norms)
    write_page(html, report.html)
