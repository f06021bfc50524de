"""``regard recency``: gradient norms by distance, of four small classifiers or your own models."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Context, Option

from regard.cli import formats
from regard.cli.declare import flags
from regard.cli.io.console import note, print_json, print_tables, write_page
from regard.core.errors import BadInput
from regard.core.flags import refuse
from regard.core.lock import lock_vacant
from regard.data.readers.text_files import name_of, read_lines
from regard.experiments import options
from regard.experiments.bulk.line_source import MAX_TOKENS, check_length
from regard.experiments.result import plain_table


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
    from regard.api import load
    from regard.experiments.studies import recency as study

    form = output.format
    if model is None:
        refuse(flags(context, "html", "max_length", "compare"), "needs MODEL")
    else:
        refuse(flags(context, "out", "seeds", "quick"), "cannot be used with MODEL")
        loaded = {name: load(name, device) for name in dict.fromkeys([model, *(compare or [])])}
        texts = list(read_lines(file))
        if not any(map(str.strip, texts)):
            raise BadInput(f"{name_of(file)}: no text; each line is one")
        for number, text in enumerate(texts, start=1):
            where = f"{name_of(file)}:{number}"
            words = loaded[model].encoder.text.words
            check_length((text,), words, max_length or MAX_TOKENS, where, special=0)
        curves, report = study.compare_models(loaded, texts)
        if form == "json":
            print_json(*study.distance_records(curves))
        else:
            print_tables([plain_table(*study.distance_table(curves))], form)
        write_page(html, report.html)
        return
    with lock_vacant(out):
        report, records = study.study_readers(out, device, seeds, quick, note)
    if form == "json":
        print_json(*records)
    else:
        print_tables([plain_table(report.columns, report.rows, report.notes[:1])], form)
    note(f"{out / 'recency.html'}: the table, and gradient norm by distance")
