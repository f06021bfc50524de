"""``regard fill``: the most probable words for masked tokens."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.io.console import print_json, print_line
from regard.cli.io.line_io import (
    CutInputs,
    LineSource,
    plain_text,
    predict_lines,
    unless_empty,
    with_max_length,
)
from regard.cli.io.output import output_to, resumable_command
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

if TYPE_CHECKING:
    from regard.inference.fill_mask import FilledText


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
    filler = loaded.encoder.filler(top)
    parse = with_max_length(plain_text, filler.token_count, max_length, filler.max_length)
    inputs = CutInputs(filler)
    source = LineSource(file, unless_empty(parse))
    with output_to(out, command) as progress:
        for line in predict_lines(source, inputs.predict, progress):
            filled, cut = line.value or (None, None)
            if as_json:
                print_json({"line": line.number, **_record(filled), "cut": cut})
            else:
                print_line("" if filled is None else _line(filled))
    inputs.report()


def _line(filled: "FilledText") -> str:
    masks = [", ".join(f"{one.word} {one.probability:.4f}" for one in top) for top in filled.blanks]
    return "\t".join([" ".join(filled.text.split("\t")), *masks])


def _record(filled: "FilledText | None") -> dict[str, Any]:
    if filled is None:
        return {"text": None, "blanks": None}
    return {"text": filled.text, "blanks": [[vars(one) for one in top] for top in filled.blanks]}
