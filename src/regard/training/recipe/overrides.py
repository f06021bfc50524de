"""``table.key=value``: what a command line says of a recipe, laid over what its file says."""

import tomllib
from typing import Any

from regard.ground.errors import BadInput

OF_RUNGS = ("batches", "optimiser", "train")  # tables that rungs of a ladder may change


def lay_over(content: dict[str, Any], setting: str) -> None:
    """Change the content of a recipe; of a ladder all rungs, whatever they say themselves.

    ``table=false`` removes a table.
    """
    _put(content, setting)
    table, rungs = setting.strip().partition(".")[0], content.get("rung")
    if rungs and table in ("model", "expect"):
        raise BadInput(f"setting {setting}: every rung of a ladder has its own {table}: edit those")
    for rung in rungs if isinstance(rungs, list) and table in OF_RUNGS else ():
        if isinstance(rung, dict):
            _put(rung, setting)


def _put(content: dict[str, Any], setting: str) -> None:
    name, equals, value = setting.partition("=")
    *tables, key = name.strip().split(".")
    if not tables and value.strip() == "false" and key != "task":
        content.pop(key, None)
        return
    if not equals or not tables:
        said = "write it as table.key=value, as in train.steps=100"
        file = "; what stands above all tables is said in a file of your own"
        raise BadInput(f"setting {setting}: {said}{file if equals else ''}")
    place = content
    for number, table in enumerate(tables):
        if tables[:number] == ["model", "change"]:  # facts have dotted names of their own
            key = ".".join([*tables[number:], key])
            break
        place = place.setdefault(table, {})
        if not isinstance(place, dict):
            raise BadInput(f"setting {setting}: {table} is a value, not a table")
    try:
        place[key] = tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        place[key] = value.strip()
