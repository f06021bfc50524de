"""Properties that are computed once. ``functools.cached_property`` has a lock in Python 3.11, which
the compiler of torch cannot trace.
"""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

Value = TypeVar("Value")


class lazy(Generic[Value]):  # noqa: N801
    """A property that is computed when it is first read, and then stored in its object."""

    def __init__(self, compute: Callable[[Any], Value]):
        self.compute, self.__doc__ = compute, compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type | None = None) -> Value:
        if instance is None:
            return self  # type: ignore[return-value]
        value = instance.__dict__[self.name] = self.compute(instance)
        return value
