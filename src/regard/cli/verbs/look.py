"""``regard look``: attention weights in the terminal, as SVG and as HTML."""

from typing import TYPE_CHECKING, Annotated

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
from regard.ground.errors import BadInput

if TYPE_CHECKING:
    from regard.inside.view import View


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

    A causal model has one map too, blank (grey) where a key is later than the query. With
    --induction, heads are scored instead: on a text with repetitions, or with --repeat, an
    induction head attends from a token to the token after its earlier occurrence.

    Example: regard look runs/tour/model "The old man reads a book." --html look.html
    """
    from regard.api import load

    check_argument(text, target)
    if induction and (target is not None or subwords):
        raise BadInput("--target, --subwords: cannot be used with --induction")
    loaded = load(model, device, precision=precision)
    if induction:
        view: View = loaded.induction(text, repeat=repeat)
    else:
        view = loaded.look(text, target, subwords=subwords, repeat=repeat)
    view = view.choose(kind, layer, head)
    if as_json:
        print_json(view.to_json())
    else:
        OUT.print(view)
    write_page(html, view.html)
    write_page(svg, view.svg)
