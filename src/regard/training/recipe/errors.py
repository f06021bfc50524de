"""Faults of a recipe as messages that name the key and the remedy."""

import re
from collections.abc import Callable, Sequence
from copy import deepcopy
from functools import reduce
from operator import getitem
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from regard.ground.errors import BadInput, did_you_mean, shorten, shown
from regard.ground.files import JSON

SETTING, UNKNOWN_KEY = "setting ", "unknown key"  # how faults begin
SHOULD, GIVEN = "Input should be ", " (given "  # in words of pydantic, and of ours
UNREADABLE = re.compile(", unable to parse string as an? [a-z]+")
WORD = re.compile(r"[\w.-]*")
# At the end of a place: which kind of value was tried.
KINDS = ("int", "str", "float", "bool", "constrained-int", "constrained-float")

SHAPES = {
    "tuple_type": 'write a list, as in ["embed", "head"]',
    "dict_type": "write a table of keys and values",
    "model_type": "write a table of keys and values",
}
"""Description of the value that a key must have, in terms of TOML."""

TABLES = {
    "labels.weights": "write a table, as in { yes = 2.0 }",
    "data.mix": "write a table of weights by folder, as in { news = 3.0, web = 1.0 }",
    "data.more_tests": "write a table of test sets, as in { web = { … } }; {} drops inherited ones",
}
"""Description of the value, for tables whose keys are names."""


RENAMED = {"train.judge": "train.metric"}
"""Renamed keys of stored recipes: old name → new name."""


Fault = tuple[str, str]
"""A wrong key, and the message about it."""


def faults_of(
    error: ValidationError,
    recipe: type[BaseModel],
    other_recipes: Sequence[type[BaseModel]],
    unusable: Callable[[str], str],
) -> list[Fault]:
    """List the faulty keys with messages; a value that fits no type of a union gets one message.

    Faults of the recipe as a whole are lines that begin with a key. ``unusable`` are keys that only
    recipes of other tasks have.
    """
    faults: dict[str, str] = {}
    for fault in error.errors():
        place = [str(step) for step in fault["loc"] if "[" not in str(step)]  # not kinds of values
        if place and place[-1] in KINDS:
            place.pop()
        if not place:
            lines = fault["msg"].removeprefix("Value error, ").splitlines()
            faults |= {WORD.match(line)[0]: line for line in lines}  # type: ignore[index]
        else:
            unknown = fault["type"] == "extra_forbidden"
            elsewhere = unknown and any(
                place[-1] in _keys(place[:-1], kind) for kind in other_recipes
            )
            name = ".".join(place)
            message = unusable(name) if elsewhere else _message(fault, place, recipe)
            faults[name] = _either(faults[name], message) if name in faults else message
    return list(faults.items())


def _either(first: str, another: str) -> str:
    """One message for two accepted types of a value; the first if they cannot be joined."""
    key, _, kind = first.partition(SHOULD)
    other = another.partition(SHOULD)[2].rpartition(GIVEN)[0]
    if not (kind and other):
        return first
    kind, _, value = kind.rpartition(GIVEN)
    return f"{key}{SHOULD}{kind}, or {other}{GIVEN}{value}"


def refusal(where: str, faults: Sequence[Fault], settings: Sequence[str]) -> BadInput:
    """Error with all faults in one line; a fault of a setting names the setting."""
    messages = []
    for name, fault in faults:
        unknown = fault.startswith(f"{UNKNOWN_KEY} {name!r}")
        matches = [
            setting
            for setting in settings
            if f"{name}.".startswith(f"{setting.partition('=')[0]}.")
            or (unknown and setting.startswith(f"{name}."))
        ]
        messages.append(f"{SETTING}{shorten(matches[-1])}: {fault}" if matches else fault)
    if len(messages) > 1:
        numbered = (f"{number}. {fault}" for number, fault in enumerate(messages, start=1))
        return BadInput(f"{where}: {len(messages)} faults: {' '.join(numbered)}")
    return BadInput(messages[0] if messages[0].startswith(SETTING) else f"{where}: {messages[0]}")


def with_new_names(stored: dict[str, JSON]) -> dict[str, JSON]:
    """Rename the keys of a stored recipe to their current names."""
    renamed = dict(stored)
    for old, new in RENAMED.items():
        (table, key), (_, name) = old.split("."), new.split(".")
        keys = renamed.get(table)
        if isinstance(keys, dict) and key in keys:
            renamed[table] = {name if own == key else own: value for own, value in keys.items()}
    return renamed


def check_removal(path: list[str], content: dict[str, object], recipe: type[BaseModel]) -> None:
    """Refuse to remove a key that no recipe of the task has."""
    *tables, key = path
    name, keys, own = ".".join(path), _keys(tables, recipe), _own_keys(tables, content)
    if key not in (*keys, *own):
        known = did_you_mean(key, keys or own)
        raise BadInput(f"{SETTING}{name}=: {UNKNOWN_KEY} {name!r}{known}")


def _own_keys(tables: list[str], content: object) -> list[str]:
    """The keys of a table that a recipe sets."""
    for table in tables:
        content = content.get(table) if isinstance(content, dict) else None
    return list(content) if isinstance(content, dict) else []


def without_unknown(content: dict[str, object], error: ValidationError) -> dict[str, object]:
    """The content of a recipe without the keys that are unknown."""
    known: Any = deepcopy(content)
    for fault in error.errors():
        if fault["type"] == "extra_forbidden":
            *tables, key = fault["loc"]
            reduce(getitem, tables, known).pop(key, None)
    return known


def _message(fault: ErrorDetails, place: list[str], recipe: type[BaseModel]) -> str:
    name = ".".join(place)
    if fault["type"] == "extra_forbidden":
        if name in RENAMED:
            return f"{name} is called {RENAMED[name]} now"
        return f"{UNKNOWN_KEY} {name!r}{did_you_mean(place[-1], _keys(place[:-1], recipe))}"
    if fault["type"] == "missing":
        return f"{name} is missing"
    shapes = SHAPES if name not in TABLES else {**SHAPES, "dict_type": TABLES[name]}
    message = shapes.get(fault["type"], fault["msg"].removeprefix("Value error, "))
    shown_value = "" if isinstance(fault["input"], dict) else f"{GIVEN}{shown(fault['input'])})"
    return f"{name}: {UNREADABLE.sub('', message)}{shown_value}"


def _keys(tables: list[str], kind: type[BaseModel]) -> list[str]:
    for table in tables:
        if table.isdigit():  # the number of a rung
            continue
        if table not in kind.model_fields:
            return []
        annotation = kind.model_fields[table].annotation
        choices = get_args(annotation) or (annotation,)
        tables_of = [c for c in choices if isinstance(c, type) and issubclass(c, BaseModel)]
        if not tables_of:
            return []
        kind = tables_of[0]
    return list(kind.model_fields)
