"""``regard recipes``: the recipes that come with regard and their expected scores."""

from typing import Annotated

from typer import Argument

from regard.cli import formats
from regard.core.errors import BadInput
from regard.experiments.recipe_texts import RecipeList, RecipeText


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
    if name is not None and output.format not in ("text", "json"):
        raise BadInput(f"--format {output.format}: a recipe is no table; use it without NAME")
    output.show(RecipeList.built_in() if name is None else RecipeText.find(name))
