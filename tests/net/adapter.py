"""Names that are not public, where there is no public way: the new place first, then the old."""

from collections.abc import Iterator
from importlib import import_module
from typing import Any

RECIPE_CLASS = ("regard.training.recipe:recipe_class",)
TASKS = ("regard.tasks.components:TASKS",)


def first_of(places: tuple[str, ...]) -> Any:
    """The object at the first of these places that a tree has."""
    for place in places:
        module, _, name = place.partition(":")
        try:
            return getattr(import_module(module), name)
        except (ImportError, AttributeError):
            continue
    raise ImportError(f"none of {', '.join(places)}: add the new place to tests/net/adapter.py")


def recipe_classes() -> Iterator[tuple[str, Any]]:
    """The type of recipes of each task, a model of pydantic."""
    recipe_class = first_of(RECIPE_CLASS)
    for task in first_of(TASKS):
        yield task, recipe_class(task)
