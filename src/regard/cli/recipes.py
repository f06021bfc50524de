"""``regard recipes``: those that come with regard, and what they promise."""

from typing import Annotated

import typer
from rich.table import Table

from regard.cli.say import JSON, OUT, print_json, print_line
from regard.training.recipe import built_in_recipes, find, read


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
            print_line(text.split("\n[expect]")[0].rstrip())  # the promise holds for its own data
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("recipe", "what", "hardware", "minutes", "promise"):
        table.add_column(column)
    for path in built_in_recipes():
        recipe = read(path)
        promise = recipe.expect
        if as_json:
            print_json({"recipe": path.stem, **recipe.model_dump(mode="json")})
        else:
            table.add_row(
                path.stem,
                recipe.about.title,
                recipe.about.hardware,
                "–" if recipe.about.minutes is None else f"{recipe.about.minutes:g}",
                f"{promise.metric} {promise.score:g} ± {promise.tolerance:g}"
                if promise
                else f"{len(recipe.rung)} models side by side"
                if recipe.rung
                else "–",
            )
    if not as_json:
        OUT.print(table)
