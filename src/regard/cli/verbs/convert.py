"""``regard convert``: model folders of regard, Hugging Face, timm, ELMo and ONNX."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from typer import Argument, Exit, Option

from regard.cli import formats
from regard.cli.io.console import complain, note, print_line, print_tables, show_event
from regard.core.errors import BadInput
from regard.core.files import is_empty, replacing_folder
from regard.core.flags import parse_numbers
from regard.experiments import options
from regard.experiments.result import OutputTable, TableFormat, text_column
from regard.models.folders.hub import local_folder

if TYPE_CHECKING:
    from regard.experiments.conversions import Differences, GraphDifferences


def convert(
    source: options.MODEL,
    target: Annotated[
        Path | None, Argument(metavar="DST", help="Folder to write; it must not exist.")
    ] = None,
    to: Annotated[
        Literal["hf", "regard", "elmo", "timm", "onnx"] | None,
        Option("--to", help="Format to write."),
    ] = None,
    list_formats: Annotated[
        bool, Option("--list-formats", help="List the formats that can express the model.")
    ] = False,
    check: Annotated[
        bool, Option("--check", help="Read the written folder back and compare outputs.")
    ] = False,
    int8: Annotated[
        bool, Option("--int8", help="With --to onnx: also graphs with weights in int8.")
    ] = False,
    attention: Annotated[
        str | None,
        Option(
            "--attention",
            metavar="LAYERS",
            help="With --to onnx: output the attention weights of these layers (all, or 0,3,6).",
        ),
    ] = None,
    keep_unknown: Annotated[
        bool, Option("--keep-unknown", help="Keep the tensors of unknown layers.")
    ] = False,
    *,
    output: formats.TableOptions,
) -> None:
    """Convert a model folder to another format.

    With --check, the written folder is read back and compared with the original, on random token
    ids and on text, and with transformers if it is installed. Each layer has a line with the
    largest difference, relative to the largest value of the layer if that is above 1; – means that
    there is no such layer (--to elmo leaves heads out). The last line has the number of texts with
    different token ids. If a difference is above 1e-5, nothing is written, and the exit code is 1.

    With --to onnx, the folder has graphs for ONNX Runtime and transformers.js in onnx/: model.onnx,
    or encoder_model.onnx and decoder_model_merged.onnx of a translator; --int8 adds files that end
    in _quantized.onnx. With --attention, attentions.LAYER (encoder_attentions, decoder_attentions
    and cross_attentions of a translator) are outputs too. --check then compares ONNX Runtime with
    the model on a padded batch of rows of different lengths: if a difference is above 1e-4, nothing
    is written, and the exit code is 1. For --int8 it prints the least cosine of a row.

    With --keep-unknown, tensors of layers that regard does not know (a published model with heads
    of its own) are stored beside the weights and written back by --to hf, bit for bit; otherwise
    they are an error.

    With --list-formats, nothing is written: each format has a line, "yes", or "no" with the reason
    and what to change in the recipe.

    Example: regard convert opus-mt-en-de runs/en-de --to regard --check

    Example: regard convert opus-mt-en-de en-de-onnx --to onnx --int8 --attention all --check
    """
    from regard.api import load
    from regard.experiments.conversions import GRAPH_LIMIT, LIMIT, check_conversion, check_graphs

    form = output.format
    if list_formats:
        if target is not None or to is not None:
            raise BadInput("--list-formats writes nothing: remove DST and --to")
        _print_formats(load(local_folder(source), "cpu").formats, form)
        return
    if target is None or to is None:
        needs = "name a folder to write and its format: regard convert MODEL DST --to FORMAT"
        raise BadInput(f"{needs}; --list-formats says which formats can express the model")
    given = {"--int8": int8, "attention": attention is not None}
    if to != "onnx" and (unused := [name for name, used in given.items() if used]):
        raise BadInput(f"{unused[0]}: only graphs have it; add --to onnx, or leave it out")
    layers = _layers(attention)
    if not is_empty(target):
        raise BadInput(f"{target}: exists and is not overwritten; name a new folder")
    folder = local_folder(source)
    model = load(folder, "cpu", keep_unknown=keep_unknown)
    if (reason := (known := model.formats)[to]) is not None:
        usable = ", ".join(name for name, fault in known.items() if fault is None)
        raise BadInput(f"{reason}; formats that can express it as it is: {usable}")
    with replacing_folder(target) as written:
        limit = GRAPH_LIMIT if to == "onnx" else LIMIT
        model.save(written, to, int8=int8, attention=layers)
        if check and to == "onnx":
            differences: Differences | GraphDifferences = check_graphs(model, written, layers, int8)
        elif check:
            differences = check_conversion(model, written, to, folder, keep_unknown, show_event)
        if check:
            output.show(differences)
            worst = differences.largest
            if not worst <= limit:  # NaN fails too
                complain(f"{target}: not written: differs by {worst:.1e} (limit {limit})")
                raise Exit(1)
    note(f"wrote {target}")


def _layers(attention: str | None) -> list[int] | None:
    """Numbers of layers; None: all."""
    if attention == "all":
        return None
    return [] if attention is None else parse_numbers("attention", attention)


def _print_formats(formats: Mapping[str, str | None], form: TableFormat) -> None:
    """Print a line of each format."""
    if form != "text":
        columns = [text_column("format"), text_column("reason")]
        print_tables([OutputTable(columns, [*formats.items()])], form)
        return
    for name, reason in formats.items():
        print_line(f"{name:<8}{'yes' if reason is None else f'no: {reason}'}")
