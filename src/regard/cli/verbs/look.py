"""``regard look``: attention weights in the terminal, as SVG, PNG and HTML."""

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from regard.cli import formats
from regard.cli.io.console import (
    OUT,
    print_json,
    show_event,
    write_drawing,
    write_picture,
    write_view,
)
from regard.cli.io.files import check_argument
from regard.core.errors import BadInput
from regard.core.flags import parse_pair, refuse
from regard.experiments import options

if TYPE_CHECKING:
    from regard.inside.attention.attention_view import View


def look(
    model: options.MODEL,
    text: Annotated[
        str,
        Argument(metavar="TEXT", help="Text to translate, classify or encode; or an image file."),
    ],
    target: Annotated[
        str | None,
        Option(
            metavar="TEXT",
            help="Translation to show, not the model's own; second text of an encoder.",
        ),
    ] = None,
    kind: Annotated[
        str | None,
        Option(
            "--map", help="Attention map: cross, encoder, alignment, …", show_default="the first"
        ),
    ] = None,
    layer: options.LAYER = None,
    head: options.HEAD = None,
    subwords: options.SUBWORDS = False,
    repeat: Annotated[
        bool, Option("--repeat", help="Read all tokens twice (causal models).")
    ] = False,
    induction: Annotated[
        bool, Option("--induction", help="Score each head of a causal model as an induction head.")
    ] = False,
    rollout: Annotated[
        bool, Option("--rollout", help="Attention rollout through all layers, or up to --layer.")
    ] = False,
    patch: Annotated[
        str | None,
        Option(
            metavar="ROW,COLUMN", help="Patch of an image whose attention is shown, counted from 0."
        ),
    ] = None,
    edits: options.EDITS = None,
    html: formats.HTML = None,
    svg: formats.SVG = None,
    png: formats.PNG = None,
    precision: options.STORED_PRECISION = None,
    device: options.DEVICE = None,
    as_json: options.JSON = False,
) -> None:
    """Show the attention weights of a model for one text or image.

    Rows are queries, columns are keys; weights are the mean over layers and heads, unless --layer
    or --head chooses one. An encoder has one map, self-attention. A classifier with attention
    pooling has one weight for each word. A model that aligns two texts has a map of the words of
    the first (rows) to those of the second (--target), and of the second to the first (--map
    alignment-back, which question answering shows first: the context is the second text).
    Classifiers also show the predicted label, and question answering the answer. --html writes all
    layers and heads, and opens with the chosen ones.

    A causal model has one map too, blank (grey) where a key is later than the query. With
    --induction, heads are scored instead: on a text with repetitions, or with --repeat, an
    induction head attends from a token to the token after its earlier occurrence.

    A model of images reads an image (JPEG, PNG, WebP) and shows the attention of its class token,
    or of a --patch, to all patches. --png and --svg draw it over the image, with its rollout (mean
    of heads plus identity, multiplied over layers); with --layer, they draw every head.

    Example: regard look runs/tour/model "The old man reads a book." --html look.html
    """

    check_argument(text, target)
    if induction:
        flags = {"subwords": subwords, "rollout": rollout, "patch": patch}
        flags["target"] = target is not None
        refuse(flags, "cannot be used with --induction")
    place = None if patch is None else parse_pair("patch", patch, "ROW,COLUMN, such as 0,3")
    runs = options.LoadOptions(precision=precision, device=device)
    loaded, envelope = runs.load_edited(model, edits, show_event)
    if not loaded.facts.encoder.embed.reads_images and _is_image(text):
        raise BadInput(f"{text}: an image, but this model reads texts; give the text itself")
    if induction:
        view: View = loaded.induction(text, repeat=repeat)
    else:
        extra = {"subwords": subwords, "repeat": repeat, "rollout": rollout}
        view = loaded.look(text, target, **extra, patch=place)
    view = view.choose(kind, layer, head)
    write_picture(png, view.png)  # first: a library may be missing
    if as_json:
        print_json({**view.to_json(), **envelope})
    else:
        OUT.print(view)
    write_view(html, view.view_record, model=model)
    write_drawing(svg, view.svg)


def _is_image(text: str) -> bool:
    """Whether a text is the name of an image file."""
    from regard.images.decode import SUFFIXES

    with suppress(OSError, ValueError):  # of a text that is no file name
        return text.lower().endswith(SUFFIXES) and Path(text).is_file()
    return False
