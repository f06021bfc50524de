"""``regard study``: published comparisons of several models, trained cell by cell."""

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Context, Exit, Option

from regard.cli import options
from regard.cli.io.console import note, print_json
from regard.cli.io.table_formats import (
    OutputTable,
    TableFormat,
    choose_format,
    number_column,
    plain_table,
    print_tables,
    text_column,
)
from regard.ground.errors import FAILED, BadInput, did_you_mean
from regard.ground.files import digest_folder, write_text
from regard.ground.lock import LOCK, is_vacant, lock_folder

if TYPE_CHECKING:
    from regard.studies.six_tasks import SixTasksTable

SIX_TASKS = "six-tasks"
STUDIES = {
    SIX_TASKS: "six tasks as baseline, with ELMo and fine-tuned: regard study six-tasks --data DIR",
    "ladder": "translators from no attention to the Transformer: regard train ladder-multi30k",
    "agreement": "language models that choose the verb of a subject: regard agreement",
    "recency": "how strongly models depend on distant words: regard recency",
}
"""Studies, each with its subject and its command."""
OWN_OPTIONS = ("data", "starts", "seeds", "cells", "out", "device")


def study(
    context: Context,
    name: Annotated[
        str | None,
        Argument(metavar="[STUDY]", help="Name of a study; without it, they are listed."),
    ] = None,
    data: options.DATA = Path(),
    starts: Annotated[
        list[str] | None,
        Option(
            metavar="NAME=FOLDER",
            help="Model that cells start from: elmo (features), encoder (fine-tuned); repeatable.",
            show_default="as in the recipes",
        ),
    ] = None,
    seeds: Annotated[
        int, Option(min=1, help="Number of runs of each cell, with seeds 1, 2, …")
    ] = 1,
    cells: Annotated[
        list[str] | None,
        Option(
            metavar="NAME",
            help="Task, way or cell to train, such as entities, elmo or entities/elmo; repeatable.",
            show_default="all",
        ),
    ] = None,
    out: Annotated[Path | None, options.OUT_FOLDER] = None,
    device: options.DEVICE = None,
    table_format: options.FORMAT = "text",
    as_json: options.JSON = False,
) -> None:
    """Train the models of a study and print its table.

    Without STUDY, lists all studies with their commands.

    six-tasks: SQuAD, SNLI, semantic roles, coreference, named entities and SST-5, each by a
    baseline, the baseline with ELMo's layers, and a fine-tuned encoder. The table has the published
    scores beside ours, and says on which data ours are; a second table has the recipe, the gain
    over the baseline and the minutes of every cell. --data is the folder that has the folders
    understanding, syntax and words. A cell whose recipe, data or start is missing is printed with
    the reason, and the others are trained; the exit code is 1 if a cell that was to be trained has
    not the scores of all its seeds.

    Each run has its own folder in --out, by default runs/six-tasks. The same command continues a
    study that was stopped: finished runs are not trained again, and an unfinished one goes on from
    its last checkpoint.

    Example: regard study six-tasks --data DATA --starts elmo=runs/elmo-gutenberg/model --seeds 3
    """
    form = choose_format(table_format, as_json)
    if name is None:
        options.refuse(options.flags(context, *OWN_OPTIONS), "needs STUDY")
        rows = [[study, *about.rsplit(": ", 1)] for study, about in STUDIES.items()]
        columns = [text_column(column) for column in ("study", "about", "command")]
        print_tables([OutputTable(columns, rows)], form)
        return
    if name not in STUDIES:
        raise BadInput(f"no study is called {name!r}{did_you_mean(name, list(STUDIES))}")
    if name != SIX_TASKS:
        command = STUDIES[name].rsplit(": ", 1)[1]
        raise BadInput(f"{name}: this study has a command of its own: {command}")
    table = _train_six_tasks(
        data,
        out or Path("runs") / SIX_TASKS,
        _parse_starts(starts or ()),
        cells or (),
        seeds,
        device,
    )
    _print(table, form)
    if not table.is_complete:
        raise Exit(FAILED)


def _parse_starts(starts: "list[str] | tuple[()]") -> dict[str, str]:
    """Folders of starts by name."""
    folders: dict[str, str] = {}
    for start in starts:
        name, equals, folder = start.partition("=")
        if not equals or not folder:
            raise BadInput(f"--starts {start}: write NAME=FOLDER")
        if name in folders:
            raise BadInput(f"--starts {start}: {name} is given twice")
        folders[name] = folder
    return folders


def _train_six_tasks(
    data: Path,
    out: Path,
    starts: dict[str, str],
    cells: "list[str] | tuple[()]",
    seeds: int,
    device: str | None,
) -> "SixTasksTable":
    from regard.studies import six_tasks

    chosen = six_tasks.choose_cells(six_tasks.SIX_TASKS, cells, starts)
    if not data.is_dir():
        raise BadInput(f"--data {data}: no such folder")
    folders = {cell.folder for cell in chosen} | {six_tasks.PAGE, LOCK}
    if out.is_file() or (out.is_dir() and {path.name for path in out.iterdir()} - folders):
        raise BadInput(f"{out}: has files that are not of this study; choose another folder")
    with lock_folder(out) as lock:
        try:
            places = (out, data, seeds, device)
            table = six_tasks.SixTasksStudy(*places, note, write_text, cache(_digest)).run(chosen)
        except BadInput:
            if is_vacant(out):
                lock.discard()
            raise
    note(f"\n{out / six_tasks.PAGE}: the table as a page")
    return table


def _digest(start: str) -> str:
    from regard.models.folders.hub import local_folder

    return digest_folder(local_folder(start))


def _print(table: "SixTasksTable", form: TableFormat) -> None:
    if form == "json":
        print_json(*table.records())
        return
    tables = [plain_table(table.columns, table.rows, table.notes)]
    if trained := [record for record in table.records() if record["seeds"]]:
        columns = [
            text_column(name) if isinstance(value, str) else number_column(name, _form(name), "–")
            for name, value in trained[0].items()
        ]
        tables.append(OutputTable(columns, [[*record.values()] for record in trained]))
    print_tables(tables, form)


def _form(name: str) -> str:
    """Format of a column of numbers."""
    if name in ("published", "seeds"):
        return ""
    return ".1f" if name == "minutes" else "+.2f" if name.startswith("gain") else ".2f"
