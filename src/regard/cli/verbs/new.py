"""``regard new``: a first recipe from a file or a folder of data."""

from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Option

from regard.cli.io.console import print_result, show_event


def new(
    data: Annotated[
        list[Path],
        Argument(metavar="DATA", help="File, folder, or the two files of parallel text."),
    ],
    task: Annotated[
        Literal["classify", "tag", "answer", "translate", "pretrain"] | None,
        Option(help="Task of the recipe.", show_default="by the data"),
    ] = None,
    start: Annotated[
        str | None, Option(metavar="MODEL", help="Model to fine-tune: a folder, or a hub id.")
    ] = None,
    column: Annotated[
        list[str] | None,
        Option(
            "--column",
            metavar="NAME",
            help="Column of a table, by name or by number from 0; repeat it: text (or two), label.",
            show_default="by name and content",
        ),
    ] = None,
    split: Annotated[
        bool,
        Option("--split", help="Write the last tenth of a running text to a development file."),
    ] = False,
    out: Annotated[
        Path | None,
        Option(
            "--out",
            metavar="RECIPE",
            help="Write the recipe to this file.",
            show_default="NAME.toml",
        ),
    ] = None,
    force: Annotated[bool, Option("--force", help="Replace an existing recipe.")] = False,
) -> None:
    """Write a first recipe for your data.

    DATA is a table (CSV, TSV, JSON lines, Parquet), a CoNLL file, SQuAD's JSON, a translation
    memory (TMX), two parallel texts, a folder of images by class, or plain text. What it holds is
    printed: format, columns, labels with counts, lengths, duplicates, and examples that two sets
    share. Files beside train.csv that are called dev.csv and test.csv are used as such; without a
    development set, the recipe holds examples out.

    The recipe names files as they are named here, so `regard train` finds them from this folder.

    Example: regard new reviews.csv --out reviews.toml
    """
    from regard.experiments.new_recipe import write_recipe

    recipe = write_recipe(
        data,
        out,
        task=task,
        start=start,
        columns=column or (),
        split=split,
        force=force,
        on_event=show_event,
    )
    print_result(recipe)
