"""``regard look``: attention weights in the terminal, as SVG and as HTML."""

from typing import Annotated

import typer

from regard.cli.console import OUT, print_json, write_page
from regard.cli.line_io import check_argument
from regard.cli.options import (
    DEVICE,
    HEAD,
    HTML,
    JSON,
    LAYER,
    MODEL,
    STORED_PRECISION,
    SUBWORDS,
    SVG,
)


def look(
    model: MODEL,
    text: Annotated[
        str, typer.Argument(metavar="TEXT", help="A text to translate, to classify or to encode.")
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
    html: HTML = None,
    svg: SVG = None,
    precision: STORED_PRECISION = None,
    device: DEVICE = None,
    as_json: JSON = False,
) -> None:
    """Show the attention weights of a model for one text.

    Rows are queries, columns are keys; the mean over layers and heads unless one is chosen. An
    encoder has one map, self-attention. A classifier with attention pooling has one weight for each
    word. Classifiers also show the predicted label. --html writes all layers and heads.

    Example: regard look runs/tour/model "The old man reads a book." --html look.html
    """
    from regard.api import load

    check_argument(text, target)
    view = load(model, device, precision=precision).look(text, target, subwords=subwords)
    view = view.choose(kind, layer, head)
    if as_json:
        print_json(view.to_json())
    else:
        OUT.print(view)
    write_page(html, view.html)
    write_page(svg, view.svg)
