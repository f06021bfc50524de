"""``regard look``: attention weights in the terminal, as SVG, PNG and HTML."""

import re
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.io.console import OUT, check_suffixes, print_json, write_page, write_picture
from regard.cli.io.line_io import check_argument
from regard.cli.options import (
    DEVICE,
    HEAD,
    HTML,
    JSON,
    LAYER,
    MODEL,
    PNG,
    STORED_PRECISION,
    SUBWORDS,
    SVG,
)
from regard.ground.errors import BadInput, shown

if TYPE_CHECKING:
    from regard.inside.attention.attention_view import View


def look(
    model: MODEL,
    text: Annotated[
        str,
        typer.Argument(
            metavar="TEXT", help="A text to translate, to classify or to encode; an image file."
        ),
    ],
    target: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help="A translation instead of the model's own; the second text of an encoder.",
        ),
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option(
            "--map", help="cross, encoder or decoder attention.", show_default="the first"
        ),
    ] = None,
    layer: LAYER = None,
    head: HEAD = None,
    subwords: SUBWORDS = False,
    repeat: Annotated[
        bool, typer.Option("--repeat", help="Read all tokens twice (causal models).")
    ] = False,
    induction: Annotated[
        bool,
        typer.Option(
            "--induction",
            help="Score each head of a causal model: attention to the token after an earlier "
            "occurrence.",
        ),
    ] = False,
    rollout: Annotated[
        bool, typer.Option("--rollout", help="Attention through all layers, or through --layer.")
    ] = False,
    patch: Annotated[
        str | None,
        typer.Option(
            metavar="ROW,COLUMN",
            help="The attention of a patch of an image, counted from 0, not of the class token.",
        ),
    ] = None,
    html: HTML = None,
    svg: SVG = None,
    png: PNG = None,
    precision: STORED_PRECISION = None,
    device: DEVICE = None,
    as_json: JSON = False,
) -> None:
    """Show the attention weights of a model for one text or image.

    Rows are queries, columns are keys; the mean over layers and heads unless one is chosen. An
    encoder has one map, self-attention. A classifier with attention pooling has one weight for each
    word. Classifiers also show the predicted label. --html writes all layers and heads, and opens
    with the chosen ones.

    A causal model has one map too, blank (grey) where a key is later than the query. With
    --induction, heads are scored instead: on a text with repetitions, or with --repeat, an
    induction head attends from a token to the token after its earlier occurrence.

    A model of images is given an image (JPEG, PNG, WebP): the attention of its class token, or of a
    --patch, to all patches. --png and --svg draw it over the image, with its rollout (heads
    averaged, identity added, the product of layers); of a --layer, they draw every head.

    Example: regard look runs/tour/model "The old man reads a book." --html look.html
    """
    from regard.api import load

    check_argument(text, target)
    check_suffixes(html=html, svg=svg, png=png)
    if induction and (target is not None or subwords or rollout or patch):
        refused = "--target, --subwords, --rollout, --patch"
        raise BadInput(f"{refused}: cannot be used with --induction")
    place = None if patch is None else _row_and_column(patch)
    loaded = load(model, device, precision=precision)
    if induction:
        view: View = loaded.induction(text, repeat=repeat)
    else:
        options = {"subwords": subwords, "repeat": repeat, "rollout": rollout}
        view = loaded.look(text, target, **options, patch=place)
    view = view.choose(kind, layer, head)
    write_picture(png, view.png)  # first: not every view can be drawn so
    if as_json:
        print_json(view.to_json())
    else:
        OUT.print(view)
    write_page(html, view.html)
    write_page(svg, view.svg)


def _row_and_column(patch: str) -> tuple[int, int]:
    """The numbers in "ROW,COLUMN"."""
    match = re.fullmatch(r"\s*(\d{1,6})\s*,\s*(\d{1,6})\s*", patch, re.ASCII)
    if match is None:
        raise BadInput(f"--patch: {shown(patch)} is not ROW,COLUMN, such as 0,3")
    return int(match[1]), int(match[2])
