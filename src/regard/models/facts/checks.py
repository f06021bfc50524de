"""Checks of facts: wrong values are refused in one line."""

from collections.abc import Collection
from functools import cache
from math import isfinite
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from regard.ground.errors import BadInput, did_you_mean


def at_least(least: int, name: str, value: Any) -> None:
    """A number that may not be smaller."""
    if isinstance(value, int) and value < least:
        raise BadInput(f"{name} must be at least {least}, not {value}")


def above_zero(name: str, value: float | None) -> None:
    """A positive number, if there is one."""
    if value is not None and not value > 0:
        raise BadInput(f"{name} must be above 0, not {value}")


def share(name: str, value: float) -> None:
    """A share of a whole, from 0 to below 1."""
    if not 0 <= value < 1:
        raise BadInput(f"{name} is a share from 0 to below 1, not {value}")


def one_of(known: Collection[str], name: str, value: str) -> None:
    """A name among those known."""
    if value not in known:
        raise BadInput(f"no {name} is called {value!r}{did_you_mean(value, list(known))}")


def check_type(kind: type, name: str, value: Any) -> None:
    """A value of the type that the field of that class says."""
    expected = _hints(kind)[name]
    if not _fits(value, expected):
        description = expected.__name__ if isinstance(expected, type) else expected
        raise BadInput(f"{name} of {kind.__name__} is {description}, so it cannot be {value!r}")
    if isinstance(value, float) and not isfinite(value):
        raise BadInput(f"{name} of {kind.__name__} must be a finite number, not {value}")


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _fits(value: Any, expected: Any) -> bool:
    if get_origin(expected) in (Union, UnionType):
        return any(_fits(value, one) for one in get_args(expected))
    if get_origin(expected) is tuple:
        member = get_args(expected)[0]
        return isinstance(value, tuple) and all(_fits(one, member) for one in value)
    if isinstance(value, bool):
        return expected is bool
    return isinstance(value, expected) or (isinstance(value, int) and expected is float)
