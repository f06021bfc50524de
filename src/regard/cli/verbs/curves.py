"""``regard curves``: loss, learning rate and development metrics of runs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Option

from regard.cli import formats
from regard.cli.io.console import OUT, print_tables, print_texts, write_drawing, write_view
from regard.core.errors import BadInput, did_you_mean
from regard.experiments.result import OutputTable, number_column, text_column


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
    from regard.training.metrics_log import read_log
    from regard.views.run_curves import Curves

    form = output.format
    folders = [folder for path in runs for folder in _runs_in(path)]
    logs = {name: read_log(folder) for name, folder in _named(folders).items()}
    drawing = Curves(logs, smooth, by, only or ())
    if not drawing.known:
        raise BadInput(f"{folders[0]}: no figures yet; the first come after train.report_every")
    for name in drawing.only:
        if name not in drawing.known:
            raise BadInput(
                f"--only {name}: no figure is called so{did_you_mean(name, drawing.known)}"
            )
    if form == "text":
        print_texts(drawing.text(min(OUT.width, 100)))
    columns = [text_column("run"), number_column("step", ",.0f")]
    columns += [number_column(name, ".4g", missing="–") for name in drawing.drawn]
    print_tables([OutputTable(columns, drawing.last_values)], form)
    write_drawing(svg, drawing.svg)
    write_view(html, drawing.view_record)


def _runs_in(path: Path) -> list[Path]:
    """The run in a folder, or the runs in the folders in it."""
    from regard.training.metrics_log import LOG

    if (path / LOG).exists():
        return [path]
    inner = sorted(folder.parent for folder in path.glob(f"*/{LOG}"))
    if not inner:
        raise BadInput(f"{path}: not the folder of a run: it has no {LOG}")
    return inner


def _named(folders: Sequence[Path]) -> dict[str, Path]:
    """Each folder by its name, or by its path if two have the same name."""
    names = [folder.resolve().name for folder in folders]
    return {
        name if names.count(name) == 1 else str(folder): folder
        for name, folder in zip(names, folders, strict=True)
    }
