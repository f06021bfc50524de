"""Checks of input values: numbers, names, and lists that are read once."""

from collections.abc import Collection, Iterable, Mapping
from numbers import Integral, Real
from typing import TypeGuard, TypeVar

from regard.core.errors import BadInput, did_you_mean, shown

Item = TypeVar("Item")


def is_whole(value: object, least: int | None = None, most: int | None = None) -> TypeGuard[int]:
    """Whether a value is a whole number within limits; true and false are not."""
    if not isinstance(value, Integral) or isinstance(value, bool):
        return False
    number = int(value)
    return (least is None or number >= least) and (most is None or number <= most)


def check_whole(name: str, value: object, least: int, most: int | None = None) -> int:
    """Return a whole number within limits; otherwise raise ``BadInput``."""
    if not is_whole(value):
        raise BadInput(f"{name} must be a whole number, not {shown(value)}")
    if value < least:
        raise BadInput(f"{name} must be at least {least}, not {shown(value)}")
    if most is not None and value > most:
        raise BadInput(f"{name} must be at most {most:,}, not {shown(value)}")
    return int(value)


def is_number(text: str) -> bool:
    """Whether a text is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def check_number(name: str, value: object) -> None:
    """Raise ``BadInput`` unless the value is a number."""
    if not isinstance(value, Real) or isinstance(value, bool):
        raise BadInput(f"{name} must be a number, not {shown(value)}")


def check_known(name: str, value: object, known: Collection[str]) -> str:
    """Return a value that is one of the ``known`` names; otherwise raise ``BadInput``."""
    if not isinstance(value, str) or value not in known:
        raise BadInput(f"{name}: there is no {shown(value)}{did_you_mean(str(value), known)}")
    return value


def listed(inputs: Iterable[Item], kinds: str = "texts", text: str = "text") -> list[Item]:
    """List of inputs; a single string is refused, because it would be read letter by letter.

    ``kinds`` and ``text`` are the words for inputs and for a single string in messages.
    """
    if isinstance(inputs, str | bytes):
        raise BadInput(f"give a list of {text}s, not one {text}")
    if isinstance(inputs, Mapping) or not isinstance(inputs, Iterable):
        raise BadInput(f"give a list of {kinds}, not {shown(inputs)}")
    if getattr(inputs, "ndim", None) == 0:  # of an array or a tensor
        raise BadInput(f"give a list of {kinds}, not one number")
    return list(inputs)
