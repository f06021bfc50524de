"""Catalogues: values by name, each imported when it is looked up."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from itertools import chain
from types import ModuleType
from typing import TypeVar, cast

Value = TypeVar("Value")


@dataclass(frozen=True)
class Entry:
    """Place of a value, "module:attribute", and what lists say ``about`` it without an import."""

    place: str
    about: str = ""

    @property
    def module(self) -> str:
        """Name of the module that defines the value."""
        return self.place.partition(":")[0]

    def load(self) -> object:
        """Import the value."""
        return getattr(import_module(self.module), self.place.partition(":")[2])


class Catalogue(Mapping[str, Value]):
    """Values by name, which are imported by ``[]``; names and entries are listed without an import.

    Several ``sources`` are asked in turn, and the first that has a name decides. Files and requests
    hold names of entries, never places.
    """

    def __init__(self, *sources: Mapping[str, Entry]):
        self.sources = sources

    def entry(self, name: str) -> Entry:
        """The entry of this name, without an import."""
        for source in self.sources:
            if name in source:
                return source[name]
        raise KeyError(name)

    def __getitem__(self, name: str) -> Value:
        return cast(Value, self.entry(name).load())

    def __contains__(self, name: object) -> bool:
        return any(name in source for source in self.sources)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(chain(*self.sources)))

    def __len__(self) -> int:
        return len({*chain(*self.sources)})


def entries(names: Mapping[str, tuple[str, ...]]) -> dict[str, Entry]:
    """Entries under the names of their attributes, from the names in each module."""
    pairs = ((module, name) for module, attributes in names.items() for name in attributes)
    return {name: Entry(f"{module}:{name}") for module, name in pairs}


def submodule(package: str, name: str) -> ModuleType:
    """The module of this name in a package, for the ``__getattr__`` of the package."""
    if find_spec(f"{package}.{name}") is None:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    return import_module(f"{package}.{name}")
