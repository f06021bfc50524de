"""``regard new``: a first recipe from a file or a folder of data."""

from collections.abc import Iterator
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Literal

from typer import Argument, Option

from regard.cli.io.console import note, print_line
from regard.core.errors import BadInput
from regard.core.files import is_there, write_text

if TYPE_CHECKING:
    from regard.data.data_facts import DataFacts, Line
    from regard.data.data_files import DataFiles


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
    from regard.data.data_files import OneDocument, recognise_files, split_text
    from regard.models.folders.hub import check_model, row_limit
    from regard.training.first_recipe import FirstRecipe

    path = out or Path(f"{_name(data[0])}.toml")
    if path.suffix != ".toml":
        raise BadInput(f"--out {path}: the name of a recipe ends in .toml")
    if is_there(path) and not force:
        raise BadInput(f"{path}: exists already; give another --out, or --force to replace it")
    if start is not None:
        check_model(start)
    written = split_text(data, path) if split else ()
    try:
        files = recognise_files([*written[:1]] or data, task, column or ())
        facts = files.describe()
        skip = " --skip-bad" if files.dropped else ""
        command = f"regard train {quote(str(path))}{skip}"
        limit = None if start is None else row_limit(start)
        recipe = FirstRecipe(files, facts, command, start, limit).text()
    except OneDocument as error:
        raise BadInput(f"{error} (--split)") from None
    except BaseException:
        for file in written:
            file.unlink()
        raise
    for label, figures in (*_lines(files, facts), *facts.lines()):
        print_line(f"{label:<12}{figures}")
    write_text(path, recipe)
    note(f"wrote {' and '.join(map(str, (*written, path)))}; next: {command} --dry-run")


def _lines(files: "DataFiles", facts: "DataFacts") -> Iterator["Line"]:
    """Lines about the files, the task and the sizes of the sets."""
    yield from files.seen
    yield "task", files.task
    yield files.unit, facts.sizes
    if files.dropped:
        remedy = "correct them, or train with --skip-bad"
        yield "malformed", f"{files.dropped} (the first: {files.dropped.first}); {remedy}"
    train = facts.sets["train"]
    if train.labels and not train.has_numbers:
        yield "labels", f"{len(train.labels):,}"


def _name(path: Path) -> str:
    """Name of the recipe: the name of the file without suffixes, or of the folder."""
    named = path.resolve()
    return named.name.split(".")[0] or "data" if named.is_file() else named.name or "data"
