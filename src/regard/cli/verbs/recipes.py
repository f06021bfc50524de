"""``regard recipes``: the recipes that come with regard and their expected scores."""

from pathlib import Path
from typing import Annotated

from typer import Argument

from regard.cli import formats
from regard.cli.io.console import print_json, print_line, print_tables
from regard.core.errors import BadInput
from regard.experiments.result import Cell, OutputTable, TableFormat, number_column, text_column
from regard.training.recipe_files import (
    AboutConfig,
    ExpectConfig,
    built_in_recipes,
    find,
    is_example,
    read_tables,
)

MINUTES = number_column("minutes", "g", missing="–", left=True)


def recipes(
    name: Annotated[str | None, Argument(help="Recipe to print.")] = None,
    *,
    output: formats.TableOptions,
) -> None:
    """List the recipes that come with regard, or print one of them.

    Examples have not been run to their end, and have no expected score. A printed recipe is a
    starting point for your own. With --json, the list has the keys that each file sets; one recipe
    is printed with every key and default.

    Example: regard recipes tour > mine.toml
    """
    form = output.format
    if name is not None and form not in ("text", "json"):
        raise BadInput(f"--format {form}: a recipe is no table; use it without NAME")
    if name is None and form == "json":
        for path in built_in_recipes():
            print_json({"recipe": path.stem, "example": is_example(path), **read_tables(path)})
    elif name is None:
        _print_tables(form)
    elif form == "json":
        from regard.training.recipe import read

        print_json(read(find(name)).model_dump(mode="json"))
    else:
        path = find(name)
        read_tables(path)  # a file that is no TOML is refused
        text = path.read_text(encoding="utf-8")
        print_line(text.split("\n[expect]")[0].rstrip())  # the score holds for its own data only


def _print_tables(form: TableFormat) -> None:
    """Print recipes with their expected scores, then the examples."""
    columns = [
        text_column("recipe"),
        text_column("what"),
        text_column("hardware"),
        MINUTES,
        text_column("expected"),
    ]
    by_kind: dict[bool, list[list[Cell]]] = {False: [], True: []}
    for path in built_in_recipes():
        by_kind[is_example(path)].append(_row(path))
    if form == "csv":  # one header
        print_tables([OutputTable(columns, [*by_kind[False], *by_kind[True]])], form)
        return
    rows = [row[:-1] for row in by_kind[True]]
    examples = OutputTable(columns[:-1], rows, "examples, without an expected score")
    print_tables([OutputTable(columns, by_kind[False]), examples], form)


def _row(path: Path) -> list[Cell]:
    tables = read_tables(path)
    about, rungs = AboutConfig(**tables["about"]), tables.get("rung", ())
    expected = f"{len(rungs)} models side by side" if rungs else "–"
    if "expect" in tables:
        expect = ExpectConfig(**tables["expect"])
        expected = f"{expect.metric} {expect.score:g} ± {expect.tolerance:g}"
    return [path.stem, about.title, about.hardware, about.minutes, expected]
