"""``regard agreement``: subject-verb agreement of four small language models, or of your own."""

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.io.console import OUT, note, print_json, print_table, write_page
from regard.cli.options import (
    DEVICE,
    HTML,
    JSON,
    OUT_FOLDER,
    QUICK,
    SEED,
    STORED_PRECISION,
    SVG,
    was_given,
)
from regard.ground.errors import BadInput
from regard.ground.lock import lock_vacant

OF_MODELS, OF_STUDY = ("html", "svg", "precision"), ("out", "seeds", "quick")


def agreement(
    context: typer.Context,
    models: Annotated[
        list[str] | None, typer.Argument(metavar="[MODEL]...", help="Language models of your own.")
    ] = None,
    sentences: Annotated[
        int, typer.Option(min=1, help="Sentences of each distance and number of attractors.")
    ] = 40,
    seed: SEED = 1,
    out: Annotated[Path, OUT_FOLDER] = Path("runs/agreement"),
    seeds: Annotated[int, typer.Option(min=1, help="Train each language model so often.")] = 1,
    quick: QUICK = False,
    html: HTML = None,
    svg: SVG = None,
    precision: STORED_PRECISION = None,
    device: DEVICE = None,
    as_json: JSON = False,
) -> None:
    """Measure whether language models choose the verb of the subject.

    "The key to the cabinets" continues with "is", though "cabinets" is nearer. A model is right if
    it finds the verb that agrees with the subject more probable than its other form: after the
    words before it, or, if it is a masked LM, between all others. The table shows how often, by the
    words between subject and verb and by the nouns of the other number among them (attractors),
    beside agreement with the nearest noun. Sentences with words that a model does not know are
    skipped, and counted.

    Without MODEL, four language models of one size (RNN, GRU, LSTM, Transformer) learn from text of
    the same templates, in which sentences are shorter and have other subjects. The table and its
    charts are written to --out.

    Example: regard agreement gpt2 runs/awd-lstm-wikitext2/model --html agreement.html
    """
    from regard.api import load
    from regard.studies.agreement import AgreementTable, score_agreement, study_models
    from regard.studies.agreement_data import agreement_sentences

    unused = OF_STUDY if models else OF_MODELS
    if names := [f"--{one}" for one in unused if was_given(context, one)]:
        reason = "cannot be used with MODEL" if models else "needs MODEL"
        raise BadInput(f"{', '.join(names)}: {reason}")
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
    if as_json:
        for record in table.records():
            print_json(record)
    else:
        print_table(table.columns, table.rows)
        for one in table.notes:
            OUT.print(one, markup=False)
    write_page(html, table.html)
    write_page(svg, table.svg)
    if not models:
        note(f"{out / 'agreement.html'}: the table, and accuracy by distance and attractors")
