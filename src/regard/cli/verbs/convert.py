"""``regard convert``: model folders of Hugging Face, of regard, of timm, and ELMo as published."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from regard.cli.io.console import complain, note
from regard.cli.options import JSON, MODEL
from regard.ground.errors import BadInput
from regard.ground.files import is_empty, replacing_folder
from regard.models.folders.hub import local_folder

LIMIT = 1e-5


def convert(
    source: MODEL,
    target: Annotated[Path, typer.Argument(metavar="DST", help="A folder that does not exist.")],
    to: Annotated[
        Literal["hf", "regard", "elmo", "timm"], typer.Option("--to", help="The format to write.")
    ],
    check: Annotated[bool, typer.Option("--check", help="Read it back and compare.")] = False,
    keep_unknown: Annotated[
        bool, typer.Option("--keep-unknown", help="Keep the tensors of unknown layers.")
    ] = False,
    as_json: JSON = False,
) -> None:
    """Convert a model folder to another format.

    With --check, the written folder is read back and compared with the original, on random token
    ids and on text, and with transformers if that is installed: one line for each layer with the
    largest difference (relative to the largest value of the layer where that is above 1; – where
    there is no such layer: in transformers, or of heads, which --to elmo leaves out), and one with
    the number of texts with different token ids. Above 1e-5 nothing is written, and the exit code
    is 1.

    With --keep-unknown, tensors of layers that regard does not know (a published model with heads
    of its own) are stored beside the weights and written back by --to hf, bit for bit; otherwise
    they are an error.

    Example: regard convert opus-mt-en-de runs/en-de --to regard --check
    """
    from regard.api import load
    from regard.cli.conversion_check import check_conversion

    if not is_empty(target):
        raise BadInput(f"{target}: exists already and is not overwritten")
    folder = local_folder(source)
    model = load(folder, "cpu", keep_unknown=keep_unknown)
    with replacing_folder(target) as written:
        model.save(written, to)
        if check:
            worst = check_conversion(model, written, to, folder, keep_unknown, as_json)
            if not worst <= LIMIT:  # NaN fails too
                complain(f"{target}: not written: differs by {worst:.1e} (limit {LIMIT})")
                raise typer.Exit(1)
    note(f"wrote {target}")
