"""``regard papers``: the lineage of papers, their sizes and results, and what changed."""

from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.io.console import OUT, print_json, print_table, write_page
from regard.cli.options import HTML, JSON
from regard.cli.paper_records import (
    PaperRecord,
    Row,
    change_rows,
    find_size,
    lineage,
    result_rows,
    section,
    size_rows,
)
from regard.ground.errors import BadInput
from regard.inside.views.papers_html import papers_page, show_value

if TYPE_CHECKING:
    from regard.inside.forward_path import PathStep

RIGHT = ("parameters", "in the paper", "score")  # columns of numbers


def papers(
    models: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PAPER[:SIZE] PAPER[:SIZE]",
            help="Two models to compare, or one, with what it builds on; "
            "a paper alone means its size base.",
        ),
    ] = None,
    results: Annotated[
        bool, typer.Option("--results", help="Print the papers' own results, and ours below them.")
    ] = False,
    path: Annotated[
        bool,
        typer.Option("--path", help="Print files and functions of one forward pass, in order."),
    ] = False,
    train: Annotated[
        bool, typer.Option("--train", help="With --path: those of a training run of one step.")
    ] = False,
    load: Annotated[
        bool, typer.Option("--load", help="With --path: those of loading a folder, too.")
    ] = False,
    html: HTML = None,
    as_json: JSON = False,
) -> None:
    """List papers with parameter counts, show one, or compare two.

    With --results, the papers' own tables and the expected scores of the recipes that come with
    regard, of all papers or of those that are named; --html writes everything as one page. With
    --path, the files and functions that run from the facts of a model to its output, in order.

    Example: regard papers BERT RoBERTa
    """
    names = models or []
    chosen = [find_size(name)[0] for name in names] or [*lineage().values()]
    if (train or load) and not path:
        raise BadInput("--train and --load need --path")
    if path:
        if len(names) != 1 or results or html is not None or (train and load):
            raise BadInput("--path shows one model: regard papers PAPER --path [--train | --load]")
        from regard.cli.paper_path import path_of
        from regard.models.papers import paper

        named = paper(chosen[0].name)
        size = names[0].partition(":")[2] or named.default_size
        _show_path(path_of(named, size, train=train, load=load), as_json)
    elif html is not None:
        if names or results or as_json:
            raise BadInput("--html writes all papers: it cannot be used with other options")
        write_page(html, lambda: papers_page([*map(section, chosen)]))
    elif results:
        _show([{"paper": one.name, **row} for one in chosen for row in result_rows(one)], as_json)
    elif len(names) == 2:
        _show(change_rows(*names), as_json)
    elif len(names) < 2:
        _show([row for paper in chosen for row in _sizes(paper)], as_json)
        before = chosen[0].after if names else None
        if before is not None:
            if not as_json:
                OUT.print()
            _show(change_rows(before, *names), as_json)
    else:
        raise BadInput("give at most two models, as PAPER:SIZE")


def _sizes(paper: PaperRecord) -> list[Row]:
    about: Row = {"paper": paper.name, "year": paper.year, "arxiv": paper.arxiv or ""}
    return [{**about, **row} for row in size_rows(paper)]


def _show(records: list[Row], as_json: bool) -> None:
    if as_json:
        for record in records:
            print_json(record)
        return
    if not records:
        OUT.print("nothing differs")
        return
    columns = list(records[0])
    left = [n for n, name in enumerate(columns) if name not in RIGHT]
    print_table(columns, [[*map(show_value, record.values())] for record in records], left)


def _show_path(steps: list["PathStep"], as_json: bool) -> None:
    """Functions in the order of their first call; a file is named where it changes."""
    if as_json:
        _show([step._asdict() for step in steps], as_json)
        return
    from regard.inside.forward_path import count_lines

    before = [None, *(step.file for step in steps)]
    rows = [
        ["" if step.file == last else step.file, str(step.line), step.function]
        for step, last in zip(steps, before, strict=False)
    ]
    print_table(["file", "line", "function"], rows, [0, 2])
    files = count_lines(step.file for step in steps)
    OUT.print(f"{len(files)} files with {sum(files.values()):,} lines, {len(steps)} functions")
