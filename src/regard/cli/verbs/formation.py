"""``regard formation``: heads while they form, from the reports of a run."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from regard.cli import formats
from regard.cli.io.console import write_drawing, write_view


def formation(
    run: Annotated[Path, Argument(metavar="RUN", help="Folder of a run with --watch heads.")],
    figure: Annotated[
        str | None,
        Option(metavar="NAME", help="Figure of heads (induction, previous, entropy, ...)."),
    ] = None,
    *,
    views: formats.ViewOptions,
    output: formats.TableOptions,
) -> None:
    """Show how attention heads form during training.

    RUN is the folder of a run that was trained with regard train --watch heads; it may still be
    going on. The table has the dev loss and the head with the highest figure at each step: the
    induction score of causal models, otherwise the entropy, unless --figure names another. A head
    with a score of 0.5 or more appears at the first step from which on it has half of its last
    value. --html writes a page with a grid of heads, a slider over steps and the curve of the loss;
    --svg draws the curves of the highest heads.

    Example: regard formation runs/induction --html formation.html
    """
    from regard.experiments.view_results import show_formation
    from regard.inside.heads.head_formation import Formation
    from regard.training.metrics_log import read_watch, watch_log

    records, where = read_watch(run, "heads"), str(watch_log(run, "heads"))
    formed = Formation.of_records(run.resolve().name, records, where)
    name = formed.first_figure if figure is None else formed.check_figure(figure)
    output.show(show_formation(formed, name))
    write_view(views.html, lambda: formed.view_record(name), data=run)
    write_drawing(views.svg, lambda: formed.svg(name))
