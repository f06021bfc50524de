"""``regard convert``: model folders of regard, Hugging Face, timm, ELMo and ONNX."""

from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Exit, Option

from regard.cli import formats
from regard.cli.io.console import show_event
from regard.core.errors import FAILED, BadInput
from regard.experiments import options


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
    from regard.experiments import conversions

    if list_formats:
        if target is not None or to is not None:
            raise BadInput("--list-formats writes nothing: remove DST and --to")
        output.show(conversions.list_formats(source))
        return
    if target is None or to is None:
        needs = "name a folder to write and its format: regard convert MODEL DST --to FORMAT"
        raise BadInput(f"{needs}; --list-formats says which formats can express the model")
    converted = conversions.convert(
        source,
        target,
        to,
        check=check,
        int8=int8,
        attention=attention,
        keep_unknown=keep_unknown,
        on_event=show_event,
    )
    output.show(converted)
    if not converted.is_written:
        raise Exit(FAILED)
