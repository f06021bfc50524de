"""``regard agreement``: subject-verb agreement of four small language models, or of your own."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Context, Option

from regard.cli import formats
from regard.cli.declare import flags
from regard.cli.io.console import note, print_json, print_tables, write_drawing, write_page
from regard.core.flags import refuse
from regard.core.lock import lock_vacant
from regard.experiments import options
from regard.experiments.result import plain_table


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
    from regard.api import load
    from regard.experiments.studies.agreement import AgreementTable, score_agreement, study_models
    from regard.experiments.studies.agreement_data import agreement_sentences

    if models:
        refuse(flags(context, "out", "seeds", "quick"), "cannot be used with MODEL")
    else:
        refuse(flags(context, "html", "svg", "precision"), "needs MODEL")
    form = output.format
    tests = agreement_sentences(sentences, seed)
    if models:
        scores = {}
        for name in dict.fromkeys(models):
            model = load(name, device, precision=precision)
            scores[name] = [score_agreement(model, tests)]
            if remark := scores[name][0].remark:
                note(f"{name}: {remark}")
        table = AgreementTable.of(scores)
    else:
        with lock_vacant(out):
            table = study_models(out, tests, device, seeds, quick, note)
    if form == "json":
        print_json(*table.records())
    else:
        print_tables([plain_table(table.columns, table.rows, table.notes)], form)
    write_page(html, table.html)
    write_drawing(svg, table.svg)
    if not models:
        note(f"{out / 'agreement.html'}: the table, and accuracy by distance and attractors")
