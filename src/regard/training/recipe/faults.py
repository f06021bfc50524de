"""Faults of a recipe: values that name the key and the remedy."""

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import reduce
from operator import getitem
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from regard.core.errors import BadInput, did_you_mean, shorten, shown
from regard.core.files import JSON
from regard.core.other_names import FACTS, our_name

SETTING = "setting "  # how messages about faults of settings begin
# At the end of a place: which kind of value was tried.
KINDS = ("int", "str", "float", "bool", "constrained-int", "constrained-float")

SHAPES = {
    "tuple_type": 'write a list, as in ["embed", "head"]',
    "dict_type": "write a table of keys and values",
    "model_type": "write a table of keys and values",
}
"""Description of the value that a key must have, in terms of TOML."""

INTEGER, NUMBER = "a valid integer", "a valid number"
EXPECTED = {
    "int_type": INTEGER,
    "int_parsing": INTEGER,
    "int_from_float": f"{INTEGER}, got a number with a fractional part",
    "float_type": NUMBER,
    "float_parsing": NUMBER,
    "finite_number": "a finite number",
    "greater_than": "greater than {gt}",
    "greater_than_equal": "greater than or equal to {ge}",
    "less_than": "less than {lt}",
    "less_than_equal": "less than or equal to {le}",
    "bool_type": "a valid boolean",
    "bool_parsing": "a valid boolean, unable to interpret input",
    "string_type": "a valid string",
    "literal_error": "{expected}",
}
"""Types of pydantic's errors about a single value → the values that are accepted."""

TABLES = {
    "labels.weights": "write a table, as in { yes = 2.0 }",
    "data.mix": "write a table of weights by folder, as in { news = 3.0, web = 1.0 }",
    "data.more_tests": "write a table of test sets, as in { web = { … } }; {} drops inherited ones",
}
"""Description of the value, for tables whose keys are names."""


RENAMED = {"train.judge": "train.metric"}
"""Renamed keys of stored recipes: old name → new name."""


@dataclass(frozen=True)
class Fault:
    """A wrong key of a recipe: what is wrong with it, or the values that it accepts."""

    key: str
    what: str = ""
    expected: tuple[str, ...] = ()
    value: str = ""  # as messages show it
    is_unknown: bool = False
    rung: str = ""  # of a ladder, to which the key belongs

    def __str__(self) -> str:
        rung = f"rung {self.rung!r}: " if self.rung else ""
        value = f" (given {self.value})" if self.value else ""
        expected = f"{self.key}: Input should be {', or '.join(self.expected)}"
        return f"{rung}{expected if self.expected else self.what}{value}"

    def either(self, other: "Fault") -> "Fault":
        """One fault of a value of two accepted types; this one if they cannot be joined."""
        if not (self.expected and self.value and other.expected):
            return self
        return replace(self, expected=self.expected + other.expected)


class RecipeFaults(ValueError):
    """Faults of a recipe as a whole, which pydantic hands on."""

    def __init__(self, faults: Sequence[Fault]):
        super().__init__("\n".join(map(str, faults)))
        self.faults = tuple(faults)


def faults_of(
    error: ValidationError,
    recipe: type[BaseModel],
    other_recipes: Sequence[type[BaseModel]],
    unusable: Callable[[str], Fault],
) -> list[Fault]:
    """The faults of a recipe; a value that fits no type of a union has one fault.

    ``unusable`` is the fault of a key that only recipes of other tasks have.
    """
    faults: dict[str, Fault] = {}
    for details in error.errors():
        place = [str(step) for step in details["loc"] if "[" not in str(step)]  # no kinds of values
        if place and place[-1] in KINDS:
            place.pop()
        if not place:
            faults |= {fault.key: fault for fault in _whole_recipe_faults(details)}
            continue
        unknown = details["type"] == "extra_forbidden"
        elsewhere = unknown and any(place[-1] in _keys(place[:-1], kind) for kind in other_recipes)
        name = ".".join(place)
        fault = unusable(name) if elsewhere else _fault(details, place, recipe)
        faults[name] = faults[name].either(fault) if name in faults else fault
    return list(faults.values())


def refusal(where: str, faults: Sequence[Fault], settings: Sequence[str]) -> BadInput:
    """Error with all faults in one line; a fault of a setting names the setting."""
    messages = []
    for fault in faults:
        key = f"{fault.key}."
        matches = [
            setting
            for setting in settings
            if key.startswith(f"{setting.partition('=')[0]}.")
            or (fault.is_unknown and setting.startswith(key))
        ]
        setting = f"{SETTING}{shorten(matches[-1])}: " if matches else ""
        messages.append((setting, f"{setting}{fault}"))
    if len(messages) > 1:
        numbered = (f"{number}. {text}" for number, (_, text) in enumerate(messages, start=1))
        return BadInput(f"{where}: {len(messages)} faults: {' '.join(numbered)}")
    ((setting, text),) = messages
    return BadInput(text if setting else f"{where}: {text}")


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
        unknown = _unknown(name, did_you_mean(key, keys or own))
        raise BadInput(f"{SETTING}{name}=: {unknown}")


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


def _unknown(name: str, remedy: str) -> Fault:
    return Fault(name, f"unknown key {name!r}{remedy}", is_unknown=True)


def _whole_recipe_faults(details: ErrorDetails) -> Sequence[Fault]:
    match details:
        case {"ctx": {"error": RecipeFaults() as error}}:
            return error.faults
    return (Fault("", _message(details)),)


def _message(details: ErrorDetails) -> str:
    """The message of a check of ours, or of pydantic."""
    match details:
        case {"ctx": {"error": ValueError() as error}}:
            return str(error)
    return details["msg"]


def _fault(details: ErrorDetails, place: list[str], recipe: type[BaseModel]) -> Fault:
    name, kind = ".".join(place), details["type"]
    if kind == "extra_forbidden":
        if name in RENAMED:
            return Fault(name, f"{name} is called {RENAMED[name]} now")
        return _unknown(name, _nearest_key(place, recipe))
    if kind == "missing":
        return Fault(name, f"{name} is missing")
    value = "" if isinstance(details["input"], dict) else shown(details["input"])
    if kind in EXPECTED:
        limits = {key: _plain(limit) for key, limit in details.get("ctx", {}).items()}
        return Fault(name, expected=(EXPECTED[kind].format(**limits),), value=value)
    shapes = SHAPES if name not in TABLES else {**SHAPES, "dict_type": TABLES[name]}
    return Fault(name, f"{name}: {shapes.get(kind) or _message(details)}", value=value)


def _plain(limit: object) -> object:
    """A limit without the fraction of a whole number."""
    return int(limit) if isinstance(limit, float) and limit.is_integer() else limit


def _nearest_key(place: list[str], recipe: type[BaseModel]) -> str:
    """End of a message about an unknown key; a name of another library may be in any table."""
    known, ours = _keys(place[:-1], recipe), our_name(place[-1])
    if ours is None or ours in known:
        return did_you_mean(place[-1], known)
    if ours in FACTS or place[0] == "model":
        return f"; did you mean {f'model.change.{ours}'!r}?"
    table = next(table for table in recipe.model_fields if ours in _keys([table], recipe))
    return f"; did you mean {f'{table}.{ours}'!r}?"


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
