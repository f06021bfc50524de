"""``regard agreement``: subject-verb agreement of four small language models, or of your own."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Context, Option

from regard.cli import formats
from regard.cli.declare import flags
from regard.cli.io.console import show_event, write_drawing, write_page
from regard.core.flags import refuse
from regard.experiments import options


def agreement(
    context: Context,
    models: Annotated[
        list[str] | None, Argument(metavar="[MODEL]...", help="Language models to measure.")
    ] = None,
    sentences: Annotated[
        int, Option(min=1, help="Number of sentences for each distance and number of attractors.")
    ] = 40,
    seed: options.SEED = 1,
    out: Annotated[Path, options.OUT_FOLDER] = Path("runs/agreement"),
    seeds: Annotated[
        int, Option(min=1, help="Number of runs of each language model, with different seeds.")
    ] = 1,
    quick: options.QUICK = False,
    html: formats.HTML = None,
    svg: formats.SVG = None,
    precision: options.STORED_PRECISION = None,
    device: options.DEVICE = None,
    *,
    output: formats.TableOptions,
) -> None:
    """Measure whether language models choose the verb of the subject.

    "The key to the cabinets" continues with "is", though "cabinets" is nearer. A model is right if
    the form of the verb that agrees with the subject is more probable than the other form: given
    the words before it, or, for a masked LM, all other words. The table shows accuracy by the
    number of words between subject and verb and by the number of attractors among them (nouns of
    the other number), beside a baseline that agrees with the nearest noun. Sentences with words
    that a model does not know are skipped, and counted.

    Without MODEL, four language models of one size (RNN, GRU, LSTM, Transformer) are trained on
    sentences of the same templates that are shorter and have other subjects. The table and its
    charts are written to --out.

    Example: regard agreement gpt2 runs/awd-lstm-wikitext2/model --html agreement.html
    """
    from regard.experiments.studies import study_list

    if models:
        refuse(flags(context, "out", "seeds", "quick"), "cannot be used with MODEL")
        runs = options.LoadOptions(precision=precision, device=device)
        result = study_list.measure_agreement(models, sentences, seed, runs, show_event)
    else:
        refuse(flags(context, "html", "svg", "precision"), "needs MODEL")
        result = study_list.train_agreement(
            out, sentences, seed, seeds=seeds, quick=quick, device=device, on_event=show_event
        )
    output.show(result)
    write_page(html, result.table.html)
    write_drawing(svg, result.table.svg)
