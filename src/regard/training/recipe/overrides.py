"""Settings that override keys of a recipe: ``table.key=value``, or a table of names and values."""

import tomllib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pydantic import BaseModel

from regard.core.errors import BadInput
from regard.training.recipe.faults import check_removal
from regard.training.recipe_files import REPLACES

OF_RUNGS = ("batches", "optimiser", "train")  # tables that rungs of a ladder may change
FACTS = "model.change."
LENGTHS = ("train.steps", "train.epochs")  # settings that replace each other
Settings = Sequence[str] | Mapping[str, object]


class Override(NamedTuple):
    """The dotted name of a key, its value, and both as the caller wrote them.

    A value of None removes the key from the recipe.
    """

    name: str
    value: object
    text: str

    @property
    def table(self) -> str:
        """The table that the key belongs to."""
        return self.name.partition(".")[0]

    @property
    def path(self) -> list[str]:
        """Names of the tables, then the key; a fact keeps its dotted name."""
        if self.name.startswith(FACTS):
            return [*FACTS.split(".")[:-1], self.name.removeprefix(FACTS)]
        return self.name.split(".")

    @property
    def removes(self) -> bool:
        """Whether the key, or a whole table, is removed."""
        return self.value is None or "." not in self.name


def parse_settings(settings: Settings) -> list[Override]:
    """Settings from a command line, whose values are TOML or plain text, or from Python."""
    if isinstance(settings, Mapping):
        pairs = settings.items()
        overrides = [_checked(str(name), value, f"{name}={value}") for name, value in pairs]
    else:
        overrides = [_parse(setting) for setting in settings]
    values = {override.name: override for override in overrides if override.value is not None}
    if len(both := [values[name] for name in LENGTHS if name in values]) > 1:
        texts = " and ".join(override.text for override in both)
        raise BadInput(f"settings {texts} exclude each other: give one of them")
    return overrides


def lay_over(content: dict[str, object], override: Override, recipe: type[BaseModel]) -> None:
    """Override a key in the content of a recipe; in a ladder, in all rungs.

    A table whose value is ``false`` is removed, and so is a key without a value, if recipes have
    such a key.
    """
    if override.removes:
        check_removal(override.path, content, recipe)
    _put(content, override)
    table, rungs = override.table, content.get("rung")
    if rungs and table in ("model", "expect"):
        raise BadInput(
            f"setting {override.text}: every rung of a ladder has its own {table}: edit the file"
        )
    for rung in rungs if isinstance(rungs, list) and table in OF_RUNGS else ():
        if isinstance(rung, dict):
            _put(rung, override)


def _parse(setting: str) -> Override:
    name, equals, value = setting.partition("=")
    if not equals:
        raise BadInput(f"setting {setting}: write it as table.key=value, as in train.steps=100")
    try:
        parsed = tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        parsed = value.strip() or None
    return _checked(name.strip(), parsed, setting)


def _checked(name: str, value: object, text: str) -> Override:
    removes = (value is False or value is None) and name != "task"
    if "." not in name and not removes:
        advice = "write it as table.key=value, as in train.steps=100"
        file = "; keys outside of tables can only be set in a recipe file"
        raise BadInput(f"setting {text}: {advice}{file}")
    return Override(name, value, text)


def _put(content: dict[str, object], override: Override) -> None:
    *tables, key = override.path
    if not tables:
        content.pop(key, None)
        return
    place = content
    for table in tables:
        inner = place.setdefault(table, {})
        if not isinstance(inner, dict):
            raise BadInput(f"setting {override.text}: {table} is a value, not a table")
        place = inner
    if override.value is None or (override.value is False and isinstance(place.get(key), dict)):
        place.pop(key, None)
    else:
        place.pop(REPLACES.get(key, ""), None)
        place[key] = override.value
