"""``regard convert``: model folders in the formats of regard, Hugging Face, timm and ELMo."""

from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Exit, Option

from regard.cli import options
from regard.cli.io.console import complain, note
from regard.cli.io.table_formats import choose_format
from regard.ground.errors import BadInput
from regard.ground.files import is_empty, replacing_folder
from regard.models.folders.hub import local_folder

LIMIT = 1e-5


def convert(
    source: options.MODEL,
    target: Annotated[Path, Argument(metavar="DST", help="Folder to write; it must not exist.")],
    to: Annotated[Literal["hf", "regard", "elmo", "timm"], Option("--to", help="Format to write.")],
    check: Annotated[
        bool, Option("--check", help="Read the written folder back and compare outputs.")
    ] = False,
    keep_unknown: Annotated[
        bool, Option("--keep-unknown", help="Keep the tensors of unknown layers.")
    ] = False,
    table_format: options.FORMAT = "text",
    as_json: options.JSON = False,
) -> None:
    """Convert a model folder to another format.

    With --check, the written folder is read back and compared with the original, on random token
    ids and on text, and with transformers if it is installed. Each layer has a line with the
    largest difference, relative to the largest value of the layer if that is above 1; – means that
    there is no such layer (--to elmo leaves heads out). The last line has the number of texts with
    different token ids. If a difference is above 1e-5, nothing is written, and the exit code is 1.

    With --keep-unknown, tensors of layers that regard does not know (a published model with heads
    of its own) are stored beside the weights and written back by --to hf, bit for bit; otherwise
    they are an error.

    Example: regard convert opus-mt-en-de runs/en-de --to regard --check
    """
    from regard.api import load
    from regard.cli.conversion_check import check_conversion

    form = choose_format(table_format, as_json)
    if not is_empty(target):
        raise BadInput(f"{target}: exists and is not overwritten; name a new folder")
    folder = local_folder(source)
    model = load(folder, "cpu", keep_unknown=keep_unknown)
    with replacing_folder(target) as written:
        model.save(written, to)
        if check:
            worst = check_conversion(model, written, to, folder, keep_unknown, form)
            if not worst <= LIMIT:  # NaN fails too
                complain(f"{target}: not written: differs by {worst:.1e} (limit {LIMIT})")
                raise Exit(1)
    note(f"wrote {target}")
