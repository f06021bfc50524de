"""``regard formation``: heads while they form, from the reports of a run."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from regard.cli import options
from regard.cli.io.console import check_suffixes, write_page, write_view
from regard.cli.io.table_formats import (
    Cell,
    OutputTable,
    choose_format,
    number_column,
    print_tables,
    text_column,
)

if TYPE_CHECKING:
    from regard.inside.heads.head_formation import Formation


def formation(
    run: Annotated[Path, Argument(metavar="RUN", help="Folder of a run with --watch heads.")],
    figure: Annotated[
        str | None,
        Option(metavar="NAME", help="Figure of heads (induction, previous, entropy, ...)."),
    ] = None,
    html: options.HTML = None,
    svg: options.SVG = None,
    table_format: options.FORMAT = "text",
    as_json: options.JSON = False,
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
    from regard.inside.heads.head_formation import CAUSAL, CAUSAL_SCORES, Formation
    from regard.training.metrics_log import read_watch, watch_log

    check_suffixes(html=html, svg=svg)
    form = choose_format(table_format, as_json)
    records, where = read_watch(run, "heads"), str(watch_log(run, "heads"))
    formed = Formation.of_records(run.resolve().name, records, where)
    name = formed.first_figure if figure is None else formed.check_figure(figure)
    appeared = formed.appearances(name) if name in CAUSAL_SCORES else []
    notes = [formed.caption]
    notes += [
        f"layer {each.head.layer}, head {each.head.head}: {name} {each.value:.2f}, "
        f"appeared at step {each.step:,}"
        for each in appeared
    ]
    if name in CAUSAL_SCORES and not appeared:
        notes.append(f"no head has a score of {name} of {CAUSAL}")
    print_tables([_table(formed, name, notes)], form)
    write_view(html, lambda: formed.view_record(name), data=run)
    write_page(svg, lambda: formed.svg(name))


def _table(formed: "Formation", name: str, notes: list[str]) -> OutputTable:
    from regard.inside.heads.head_report import FORMATS

    columns = [number_column("step", ",d"), number_column("dev loss", ".4f"), text_column("site")]
    columns += [number_column(column, "d") for column in ("layer", "head")]
    columns.append(number_column(name, FORMATS[name]))
    rows: list[list[Cell]] = []
    for at, loss, head in zip(formed.steps, formed.losses, formed.highest(name), strict=True):
        best: list[Cell] = [None] * 4 if head is None else [*head.place, head.figures[name]]
        rows.append([at.step, loss, *best])
    return OutputTable(columns, rows, notes=notes)
