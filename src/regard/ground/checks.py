"""Checks of single input values."""

from typing import Any

import numpy as np

from regard.ground.errors import BadInput, shown


def check_whole(name: str, value: Any, least: int, most: int | None = None) -> int:
    """Return a whole number within limits; otherwise raise ``BadInput``."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool):
        raise BadInput(f"{name} must be a whole number, not {shown(value)}")
    if value < least:
        raise BadInput(f"{name} must be at least {least}, not {shown(value)}")
    if most is not None and value > most:
        raise BadInput(f"{name} must be at most {most:,}, not {shown(value)}")
    return int(value)


def check_number(name: str, value: Any) -> None:
    """Raise ``BadInput`` unless the value is a number."""
    if not isinstance(value, int | float | np.integer | np.floating) or isinstance(value, bool):
        raise BadInput(f"{name} must be a number, not {shown(value)}")
