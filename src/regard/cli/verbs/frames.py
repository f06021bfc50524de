"""``regard frames``: the predicates of a sentence and their arguments, in brackets or as arcs."""

from typing import Annotated

from typer import Argument, Option

from regard.cli import formats
from regard.cli.io.console import print_result, show_event, write_drawing
from regard.cli.io.files import check_argument
from regard.experiments import options


def frames(
    model: options.MODEL,
    text: Annotated[str, Argument(metavar="TEXT", help="A sentence.")],
    predicate: Annotated[
        list[int] | None,
        Option(
            metavar="N",
            help="Index of a predicate among the words, from 0; repeatable.",
            show_default="found by the model",
        ),
    ] = None,
    pretokenised: options.PRETOKENISED = False,
    svg: formats.SVG = None,
    precision: options.PRECISION = "auto",
    device: options.DEVICE = None,
    as_json: options.JSON = False,
) -> None:
    """Show the predicates of a sentence and their arguments.

    The model is one that a recipe with task = "roles" trained. Each predicate is printed with its
    semantic roles in brackets: who did what to whom. --json adds probabilities, and --svg draws an
    arc from each predicate to each of its arguments. regard predict reads whole files.

    Example: regard frames runs/propbank-ewt-bert/model "The owl ate a mouse." --svg owl.svg
    """
    from regard.experiments.input_views import show_frames
    from regard.views.role_arcs import draw_frames

    check_argument(text)
    runs = options.LoadOptions(precision=precision, device=device)
    shown = show_frames(
        model, text, predicate, runs, pretokenised=pretokenised, on_event=show_event
    )
    print_result(shown, "json" if as_json else "text")
    write_drawing(svg, lambda: draw_frames(shown.frames, text))
