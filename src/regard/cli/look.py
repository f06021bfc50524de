"""``regard look``: what a model looks at, in the terminal, as a drawing, as a page."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from regard.api import load
from regard.cli.console import DEVICE, JSON, MODEL, OUT, note, print_json
from regard.ground.errors import BadInput
from regard.ground.files import write_text
from regard.inside.view import has_colours


def look(
    model: MODEL,
    text: Annotated[
        str, typer.Argument(metavar="TEXT", help="A sentence to translate, to label or to read.")
    ],
    target: Annotated[
        str | None,
        typer.Option(
            help="Look at this translation instead of the model's own; an encoder's second text."
        ),
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option("--map", help="cross, encoder or decoder attention; by default the first."),
    ] = None,
    layer: Annotated[int | None, typer.Option(help="One layer instead of the mean.")] = None,
    head: Annotated[int | None, typer.Option(help="One head instead of the mean.")] = None,
    subwords: Annotated[bool, typer.Option("--subwords", help="Show pieces, not words.")] = False,
    html: Annotated[
        Path | None, typer.Option(help="Write one page with everything; it works offline.")
    ] = None,
    svg: Annotated[Path | None, typer.Option(help="Write the map as a vector drawing.")] = None,
    as_json: JSON = False,
    device: DEVICE = None,
) -> None:
    """Show which words a model looks at: rows look, columns are looked at.

    An encoder has one map, of each word at all others. Of a classifier that pools by attention, the
    words of the text, each as dark as its weight. Classifiers show the label they predict.

    Example: regard look runs/tour/model "The old man reads a book." --html look.html
    """
    if not text.strip():
        raise BadInput("there is no text to look at")
    if any("\ud800" <= character <= "\udfff" for character in text + (target or "")):
        raise BadInput("the text is not UTF-8")
    view = load(model, device).look(text, target, subwords=subwords)
    chosen: dict[str, Any] = {"name": kind, "layer": layer, "head": head}
    if as_json:
        print_json(view.to_json(**chosen))
    else:
        for line in view.lines(OUT.width, coloured=has_colours(OUT), **chosen):
            OUT.print(line)
    _write(html, view.html)
    _write(svg, lambda: view.svg(**chosen))


def _write(path: Path | None, draw: Callable[[], str]) -> None:
    if path is not None:
        write_text(path, draw())
        note(f"wrote {path}")
