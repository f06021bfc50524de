"""``regard papers``: papers with their sizes, results and differences."""

from typing import Annotated

from typer import Argument, Option

from regard.cli import formats
from regard.cli.io.console import write_view
from regard.core.errors import BadInput
from regard.core.flags import refuse
from regard.experiments.paper_records import find_size, lineage, paper_tables, section
from regard.views.papers_view import papers_record


def papers(
    models: Annotated[
        list[str] | None,
        Argument(
            metavar="PAPER[:SIZE] PAPER[:SIZE]",
            help="Model to compare with the model it builds on, or two.",
        ),
    ] = None,
    results: Annotated[
        bool, Option("--results", help="Print the results in the papers, and ours below them.")
    ] = False,
    path: Annotated[
        bool, Option("--path", help="Print files and functions of one forward pass, in order.")
    ] = False,
    load: Annotated[
        bool, Option("--load", help="With --path: functions of loading a folder, too.")
    ] = False,
    beam: Annotated[
        bool, Option("--beam", help="With --path: functions of one step of beam search.")
    ] = False,
    train: Annotated[
        bool, Option("--train", help="With --path: functions of one step of training.")
    ] = False,
    run: Annotated[
        bool, Option("--run", help="With --path: functions of a training run of one step.")
    ] = False,
    html: formats.HTML = None,
    *,
    output: formats.TableOptions,
) -> None:
    """List papers with parameter counts, show one, or compare two.

    With --results, the scores that the papers print and the expected scores of the recipes that
    come with regard, for all papers or for PAPER; --html writes everything as one page. With
    --path, the files and functions that run from the facts of a model to its output, in order, or
    in one step of a search or of training.

    Example: regard papers BERT RoBERTa
    """
    names, form = models or [], output.format
    for name in names:
        find_size(name)
    of_path = {"load": load, "beam": beam, "train": train, "run": run}
    if path:
        if len(names) != 1 or results or html is not None or sum(of_path.values()) > 1:
            choices = " | ".join(f"--{name}" for name in of_path)
            raise BadInput(f"--path: needs one model: regard papers PAPER --path [{choices}]")
        from regard.experiments.paper_path import PaperPath

        kind, *_ = [*(name for name, value in of_path.items() if value), "forward"]
        output.show(PaperPath.of(names[0], kind))
        return
    refuse(of_path, "needs --path")
    if html is not None:
        if names or results or form != "text":
            raise BadInput("--html: writes all papers; use it without PAPER and other options")
        write_view(html, lambda: papers_record([*map(section, lineage().values())]))
    else:
        output.show(paper_tables(names, results=results))
