"""``regard fill``: the most probable words for masked tokens."""

from typing import Annotated

import typer

from regard.cli.io.line_io import LineSource, parser_of, run_component
from regard.cli.io.output import resumable_command
from regard.cli.options import (
    BATCH_SIZE,
    DEVICE,
    FILE,
    JSON,
    MAX_LENGTH,
    MODEL,
    OUT_FILE,
    PRECISION,
    RESUME,
)


def fill(
    context: typer.Context,
    model: MODEL,
    file: FILE = "-",
    top: Annotated[int, typer.Option(help="Words printed for each mask token.")] = 5,
    max_length: MAX_LENGTH = None,
    batch_size: BATCH_SIZE = None,
    precision: PRECISION = "auto",
    device: DEVICE = None,
    out: OUT_FILE = None,
    resume: RESUME = False,
    as_json: JSON = False,
) -> None:
    """Fill the [MASK] tokens of each line with probable words.

    Prints the filled line, then for each mask token (BERT and context2vec: [MASK], RoBERTa:
    <mask>), after a tab, the most probable words with their probabilities. An empty line stays
    empty. With --out FILE --resume, results are kept in FILE.partial as they come; if the command
    was stopped, the same one goes on after them.

    Example: echo "The old man [MASK] a book." | regard fill runs/bert/model
    """
    from regard.api import load

    command = resumable_command(context)
    loaded = load(model, device, precision=precision, batch_size=batch_size)
    component = loaded.encoder.filler(top)
    source = LineSource(file, parser_of(component, max_length))
    run_component(source, component, out, command, as_json=as_json)
