"""``regard recipes``: the recipes that come with regard and their expected scores."""

from pathlib import Path
from typing import Annotated

from typer import Argument

from regard.cli import options
from regard.cli.io.console import print_json, print_line, print_table
from regard.training.recipe_files import (
    AboutConfig,
    ExpectConfig,
    built_in_recipes,
    find,
    is_example,
    read_tables,
)


def recipes(
    name: Annotated[str | None, Argument(help="Recipe to print.")] = None,
    as_json: options.JSON = False,
) -> None:
    """List the recipes that come with regard, or print one of them.

    Examples have not been run to their end, and have no expected score. A printed recipe is a
    starting point for your own. With --json, the list has the keys that each file sets; one recipe
    is printed with every key and default.

    Example: regard recipes tour > mine.toml
    """
    if name is None and as_json:
        for path in built_in_recipes():
            print_json({"recipe": path.stem, "example": is_example(path), **read_tables(path)})
    elif name is None:
        _print_tables()
    elif as_json:
        from regard.training.recipe import read

        print_json(read(find(name)).model_dump(mode="json"))
    else:
        path = find(name)
        read_tables(path)  # a file that is no TOML is refused
        text = path.read_text(encoding="utf-8")
        print_line(text.split("\n[expect]")[0].rstrip())  # the score holds for its own data only


def _print_tables() -> None:
    """Print recipes with their expected scores, then the examples."""
    columns = ("recipe", "what", "hardware", "minutes", "expected")
    by_kind: dict[bool, list[list[str]]] = {False: [], True: []}
    for path in built_in_recipes():
        by_kind[is_example(path)].append(_row(path))
    print_table(columns, by_kind[False], left=range(len(columns)))
    print_line("\nexamples, without an expected score")
    print_table(columns[:-1], [row[:-1] for row in by_kind[True]], left=range(len(columns) - 1))


def _row(path: Path) -> list[str]:
    tables = read_tables(path)
    about, rungs = AboutConfig(**tables["about"]), tables.get("rung", ())
    minutes = "–" if about.minutes is None else f"{about.minutes:g}"
    expected = f"{len(rungs)} models side by side" if rungs else "–"
    if "expect" in tables:
        expect = ExpectConfig(**tables["expect"])
        expected = f"{expect.metric} {expect.score:g} ± {expect.tolerance:g}"
    return [path.stem, about.title, about.hardware, minutes, expected]
