"""``regard study``: published comparisons of several models, trained cell by cell."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Context, Exit, Option

from regard.cli import formats
from regard.cli.declare import flags
from regard.cli.io.console import show_event
from regard.core.errors import FAILED, BadInput, did_you_mean
from regard.core.flags import refuse
from regard.experiments import options
from regard.experiments.result import Figures, OutputTable, text_column

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
    *,
    output: formats.TableOptions,
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
    if name is None:
        refuse(flags(context, *OWN_OPTIONS), "needs STUDY")
        rows = [[study, *about.rsplit(": ", 1)] for study, about in STUDIES.items()]
        columns = [*map(text_column, ("study", "about", "command"))]
        output.show(Figures([OutputTable(columns, rows)]))
        return
    if name not in STUDIES:
        raise BadInput(f"no study is called {name!r}{did_you_mean(name, list(STUDIES))}")
    if name != SIX_TASKS:
        command = STUDIES[name].rsplit(": ", 1)[1]
        raise BadInput(f"{name}: this study has a command of its own: {command}")
    from regard.experiments.studies.study_list import train_six_tasks

    folder = out or Path("runs") / SIX_TASKS
    table = train_six_tasks(data, folder, starts or (), cells or (), seeds, device, show_event)
    output.show(table)
    if not table.is_complete:
        raise Exit(FAILED)
