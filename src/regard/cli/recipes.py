"""``regard recipes``: those that come with regard, and the scores they expect."""

from typing import Annotated

import typer

from regard.cli.console import JSON, print_json, print_line
from regard.cli.table import print_table
from regard.training.recipe import Recipe, read
from regard.training.recipe_files import built_in_recipes, find


def recipes(
    name: Annotated[str | None, typer.Argument(help="Print this one.")] = None,
    as_json: JSON = False,
) -> None:
    """List the recipes that come with regard, or print one of them to begin your own with.

    Example: regard recipes tour > mine.toml
    """
    if name is not None:
        path = find(name)
        recipe = read(path)
        if as_json:
            print_json(recipe.model_dump(mode="json"))
        else:
            text = path.read_text(encoding="utf-8")
            print_line(text.split("\n[expect]")[0].rstrip())  # the score is that of its own data
        return
    rows = []
    for path in built_in_recipes():
        recipe = read(path)
        if as_json:
            print_json({"recipe": path.stem, **recipe.model_dump(mode="json")})
        else:
            rows.append(_row(path.stem, recipe))
    if not as_json:
        columns = ("recipe", "what", "hardware", "minutes", "expected")
        print_table(columns, rows, left=range(len(columns)))


def _row(name: str, recipe: Recipe) -> list[str]:
    about, expect = recipe.about, recipe.expect
    minutes = "–" if about.minutes is None else f"{about.minutes:g}"
    expected = f"{len(recipe.rung)} models side by side" if recipe.rung else "–"
    if expect:
        expected = f"{expect.metric} {expect.score:g} ± {expect.tolerance:g}"
    return [name, about.title, about.hardware, minutes, expected]
