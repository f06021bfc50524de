"""``regard papers``: papers with their sizes, results and differences."""

from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from regard.cli import options, paper_records
from regard.cli.io.console import print_json, print_line, write_view
from regard.cli.io.table_formats import (
    Cell,
    Column,
    OutputTable,
    TableFormat,
    choose_format,
    number_column,
    print_tables,
    text_column,
)
from regard.cli.paper_records import Row, change_rows, result_rows, size_rows
from regard.ground.errors import BadInput
from regard.inside.views.papers_view import papers_record, show_value

if TYPE_CHECKING:
    from regard.inside.forward_path import PathStep

RIGHT = ("parameters", "in the paper", "score")  # columns of numbers


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
    train: Annotated[
        bool, Option("--train", help="With --path: functions of a training run of one step.")
    ] = False,
    load: Annotated[
        bool, Option("--load", help="With --path: functions of loading a folder, too.")
    ] = False,
    html: options.HTML = None,
    table_format: options.FORMAT = "text",
    as_json: options.JSON = False,
) -> None:
    """List papers with parameter counts, show one, or compare two.

    With --results, the scores that the papers print and the expected scores of the recipes that
    come with regard, for all papers or for PAPER; --html writes everything as one page. With
    --path, the files and functions that run from the facts of a model to its output, in order.

    Example: regard papers BERT RoBERTa
    """
    names, form = models or [], choose_format(table_format, as_json)
    chosen = [paper_records.find_size(name)[0] for name in names]
    chosen = chosen or [*paper_records.lineage().values()]
    if not path:
        options.refuse({"--train": train, "--load": load}, "needs --path")
    if path:
        if len(names) != 1 or results or html is not None or (train and load):
            raise BadInput("--path: needs one model: regard papers PAPER --path [--train | --load]")
        from regard.cli.paper_path import path_of
        from regard.models.papers import MODULE_NAMES, paper

        named = paper(chosen[0].name)
        size = names[0].partition(":")[2] or named.default_size
        if form == "text":
            print_line(f"the facts of {named.name} are values in {MODULE_NAMES[named.key]}")
        _show_path(path_of(named, size, train=train, load=load), form)
    elif html is not None:
        if names or results or form != "text":
            raise BadInput("--html: writes all papers; use it without PAPER and other options")
        write_view(html, lambda: papers_record([*map(paper_records.section, chosen)]))
    elif results:
        scores = [{"paper": paper.name, **row} for paper in chosen for row in result_rows(paper)]
        _show([scores], form)
    elif len(names) == 2:
        _show([change_rows(*names)], form)
    elif len(names) < 2:
        rows: list[Row] = [
            {"paper": paper.name, "year": paper.year, "arxiv": paper.arxiv or "", **row}
            for paper in chosen
            for row in size_rows(paper)
        ]
        before = chosen[0].after if names else None
        _show([rows, *([] if before is None else [change_rows(before, *names)])], form)
    else:
        raise BadInput("PAPER: name at most two models, as PAPER:SIZE")


def _show(tables: list[list[Row]], form: TableFormat) -> None:
    """Print tables of records, with an empty line between them."""
    if form == "json":
        print_json(*(record for records in tables for record in records))
        return
    for number, records in enumerate(tables):
        if number:
            print_line("")
        if records:
            print_tables([_table(records)], form)
        elif form == "text":
            print_line("nothing differs")


def _table(records: list[Row]) -> OutputTable:
    columns = [
        Column(name, show_value, left=name not in RIGHT, missing=show_value(None))
        for name in records[0]
    ]
    return OutputTable(columns, [[*record.values()] for record in records])


def _show_path(steps: list["PathStep"], form: TableFormat) -> None:
    """Print functions in the order of their first call; text names a file where it changes."""
    if form == "json":
        print_json(*(step._asdict() for step in steps))
        return
    columns = [text_column("file"), number_column("line"), text_column("function")]
    if form != "text":
        print_tables([OutputTable(columns, [(s.file, s.line, s.function) for s in steps])], form)
        return
    from regard.inside.forward_path import count_lines

    before = [None, *(step.file for step in steps)]
    rows: list[list[Cell]] = [
        ["" if step.file == last else step.file, step.line, step.function]
        for step, last in zip(steps, before, strict=False)
    ]
    print_tables([OutputTable(columns, rows)])
    files = count_lines(step.file for step in steps)
    print_line(f"{len(files)} files with {sum(files.values()):,} lines, {len(steps)} functions")
