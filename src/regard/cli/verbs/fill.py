"""``regard fill``: the most probable words for masked tokens."""

from typing import Annotated

from typer import Context, Option

from regard.cli import options
from regard.cli.io.line_io import run_component
from regard.cli.io.output import resumable_command
from regard.cli.io.table_io import check_output, declared_format, table_or_lines


def fill(
    context: Context,
    model: options.MODEL,
    file: options.FILE = "-",
    column: options.COLUMN = None,
    delimiter: options.DELIMITER = None,
    encoding: options.ENCODING = None,
    top: Annotated[int, Option(help="Number of words printed for each mask token.")] = 5,
    edits: options.EDITS = None,
    max_length: options.MAX_LENGTH = None,
    batch_size: options.BATCH_SIZE = None,
    precision: options.PRECISION = "auto",
    device: options.DEVICE = None,
    out: options.OUT_FILE = None,
    resume: options.RESUME = False,
    as_json: options.JSON = False,
) -> None:
    """Fill the [MASK] tokens of each line with probable words.

    Prints the filled line, then for each mask token (BERT and context2vec: [MASK], RoBERTa:
    <mask>), after a tab, the most probable words with their probabilities. An empty line stays
    empty. With --out FILE --resume, results are written to FILE.partial as they come; if the
    command was stopped, the same command continues after them.

    A table (.csv, .tsv, .jsonl, .parquet) is printed again with the columns filled and words;
    --column names its text; --delimiter and --encoding declare its form.

    Example: echo "The old man [MASK] a book." | regard fill runs/bert/model
    """
    from regard.cli.edited_models import load_model

    form = declared_format(delimiter, encoding)
    check_output(file, out, as_json=as_json)
    command = resumable_command(context)
    loaded, envelope = load_model(model, device, edits, precision, batch_size)
    component = loaded.encoder.filler(top)
    source = table_or_lines(component, file, column, max_length, form)
    run_component(source, component, out, command, as_json=as_json, **envelope)
