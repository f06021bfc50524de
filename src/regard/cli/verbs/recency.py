"""``regard recency``: gradient norms by distance, of four small classifiers or your own models."""

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.io.console import OUT, note, print_json, print_table, write_page
from regard.cli.io.line_io import check_length
from regard.cli.options import (
    DEVICE,
    FILE,
    HTML,
    JSON,
    MAX_LENGTH,
    MAX_TOKENS,
    OUT_FOLDER,
    QUICK,
    was_given,
)
from regard.data.files.text_files import name_of, read_lines
from regard.ground.errors import BadInput
from regard.ground.lock import lock_vacant

OF_MODEL, OF_STUDY = ("html", "max_length", "compare"), ("out", "seeds", "quick")


def recency(
    context: typer.Context,
    model: Annotated[
        str | None,
        typer.Argument(metavar="MODEL", help="A classifier or language model of your own."),
    ] = None,
    file: FILE = "-",
    compare: Annotated[
        list[str] | None,
        typer.Option(metavar="MODEL", help="Another model beside it; may be repeated."),
    ] = None,
    out: Annotated[Path, OUT_FOLDER] = Path("runs/recency"),
    seeds: Annotated[int, typer.Option(min=1, help="Train each classifier so often.")] = 3,
    quick: QUICK = False,
    html: HTML = None,
    max_length: MAX_LENGTH = None,
    device: DEVICE = None,
    as_json: JSON = False,
) -> None:
    """Measure how strongly a model depends on distant words.

    Prints the gradient norm of the state that is classified, or that predicts the next word, with
    respect to each word, by the distance of the word from the end. With MODEL, the texts are the
    lines of FILE, and an untrained model of the same architecture is measured too; --compare adds
    other models.

    Without MODEL, four small classifiers (RNN and LSTM by their last state, LSTM by attention, a
    Transformer) learn subject-verb agreement from templates. The table shows the accuracy by number
    of attractors; the charts in --out show the gradient norms before and after training.

    Example: regard recency --out runs/recency --seeds 3
    """
    from regard.api import load
    from regard.studies import recency as study

    unused = OF_STUDY if model is not None else OF_MODEL
    if names := [f"--{one.replace('_', '-')}" for one in unused if was_given(context, one)]:
        reason = "cannot be used with MODEL" if model is not None else "needs MODEL"
        raise BadInput(f"{', '.join(names)}: {reason}")
    if model is not None:
        loaded = {name: load(name, device) for name in dict.fromkeys([model, *(compare or [])])}
        texts = list(read_lines(file))
        for number, text in enumerate(texts, start=1):
            where = f"{name_of(file)}:{number}"
            words = loaded[model].encoder.text.words
            check_length((text,), words, max_length or MAX_TOKENS, where, special=0)
        curves, report = study.compare_models(loaded, texts)
        if as_json:
            for record in study.distance_records(curves):
                print_json(record)
        else:
            print_table(*study.distance_table(curves))
        write_page(html, report.html)
        return
    with lock_vacant(out):
        report, records = study.study_readers(out, device, seeds, quick, note)
    if as_json:
        for record in records:
            print_json(record)
    else:
        print_table(report.columns, report.rows)
        OUT.print(report.notes[0], markup=False)
    note(f"{out / 'recency.html'}: the table, and gradient norm by distance")
