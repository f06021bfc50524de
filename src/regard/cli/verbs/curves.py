"""``regard curves``: loss, learning rate and development metrics of runs."""

from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Option

from regard.cli import formats
from regard.cli.io.console import write_drawing, write_view


def curves(
    runs: Annotated[
        list[Path], Argument(metavar="RUN", help="Run folders, or folders of several runs.")
    ],
    smooth: Annotated[
        float, Option(min=0, max=0.999, help="Decay of the moving average of training figures.")
    ] = 0.0,
    only: Annotated[
        list[str] | None,
        Option(metavar="NAME", help="Figure to show (nll, 'dev loss', ...); repeatable."),
    ] = None,
    by: Annotated[Literal["step", "seconds"], Option(help="The x-axis.")] = "step",
    svg: formats.SVG = None,
    html: formats.HTML = None,
    *,
    output: formats.TableOptions,
) -> None:
    """Draw the loss, learning rate and metrics of training runs.

    Each RUN is the folder of a run, also of one that is still going on, or a folder of several runs
    (seeds, rungs, trials). Charts are printed as text, with one mark and colour for each run, then
    a table of the last values; --svg and --html write them to files. Other formats of tables are
    printed without charts. "dev" before a name means the development set.

    Example: regard curves runs/tour runs/mine --smooth 0.9 --html curves.html
    """
    from regard.experiments import run_listing

    drawn = run_listing.curves(runs, smooth, only or (), by)
    output.show(drawn)
    write_drawing(svg, drawn.curves.svg)
    write_view(html, drawn.curves.view_record)
