"""``regard fill``: the most probable words for blanks."""

from typing import Annotated

import typer

from regard.api import load
from regard.cli.console import DEVICE, JSON, MODEL, PRECISION, print_json, print_line
from regard.cli.line_io import answered, as_it_is
from regard.tasks.fill_mask import FilledText


def fill(
    model: MODEL,
    file: Annotated[str, typer.Argument(help="One text a line; - is standard input.")] = "-",
    top: Annotated[int, typer.Option(help="How many words to name for each blank.")] = 5,
    precision: PRECISION = "auto",
    as_json: JSON = False,
    device: DEVICE = None,
) -> None:
    """Print each line with its blanks filled, then for each blank, after a tab, the best words.

    A blank is written [MASK]. An empty line stays an empty line.

    Example: echo "The old man [MASK] a book." | regard fill runs/bert/model
    """
    filler = load(model, device, precision=precision).encoder.filler(top)

    for number, said in answered(file, as_it_is, filler.predict):
        if as_json:
            print_json({"line": number, **_record(said)})
        else:
            print_line("" if said is None else _line(said))


def _line(said: FilledText) -> str:
    blanks = [", ".join(f"{one.word} {one.probability:.4f}" for one in top) for top in said.blanks]
    return "\t".join([" ".join(said.text.split("\t")), *blanks])


def _record(said: FilledText | None) -> dict[str, object]:
    if said is None:
        return {"text": None, "blanks": None}
    blanks = [
        [{"word": one.word, "probability": one.probability} for one in top] for top in said.blanks
    ]
    return {"text": said.text, "blanks": blanks}
