"""What facts may be: wrong ones are refused in one line."""

from collections.abc import Collection
from typing import Any

from regard.ground.errors import BadInput, did_you_mean


def at_least(least: int, name: str, value: Any) -> None:
    """A number that may not be smaller."""
    if isinstance(value, int) and value < least:
        raise BadInput(f"{name} must be at least {least}, not {value}")


def share(name: str, value: float) -> None:
    """A part of a whole, but not all of it."""
    if not 0 <= value < 1:
        raise BadInput(f"{name} is a share from 0 to below 1, not {value}")


def one_of(known: Collection[str], name: str, value: str) -> None:
    """A name among those known."""
    if value not in known:
        raise BadInput(f"no {name} is called {value!r}{did_you_mean(value, list(known))}")
