"""``regard steer``: a steering vector from two files of texts."""

from pathlib import Path
from typing import Annotated

from typer import Option

from regard.cli.io.console import print_result, show_event
from regard.core.errors import BadInput
from regard.experiments import options


def steer(
    model: options.MODEL,
    plus: Annotated[str, Option(metavar="FILE", help="Texts to steer towards, one per line.")],
    minus: Annotated[str, Option(metavar="FILE", help="Texts to steer away from, one per line.")],
    out: options.OUT_FILE = Path("steer.safetensors"),
    layer: options.LAYER = None,
    name: Annotated[str, Option(help="Name of the vector in the file.")] = "steer",
    scale: Annotated[float, Option(help="Factor in the printed edit.")] = 1.0,
    max_length: options.MAX_LENGTH = None,
    as_json: options.JSON = False,
    *,
    runs: options.LoadOptions,
) -> None:
    """Compute a steering vector from two files of texts.

    The vector is the mean state of the texts of --plus after a layer (default: the middle one),
    minus the mean state of --minus. It is written to a safetensors file; the edit that adds it to a
    model is printed, for a file of --edits beside it.

    Example: regard steer gpt2 --plus joy.txt --minus grief.txt --layer 6 --scale 4 > joy.toml
    """
    from regard.experiments import word_vectors

    if out is None:
        raise BadInput("--out: missing; name a safetensors file")
    edit = word_vectors.steer(
        model,
        plus,
        minus,
        out,
        layer=layer,
        name=name,
        scale=scale,
        max_length=max_length,
        runs=runs,
        on_event=show_event,
    )
    print_result(edit, "json" if as_json else "text")
