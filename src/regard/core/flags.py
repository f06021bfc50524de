"""Options of functions, declared once for all front ends."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import ClassVar, get_args, get_type_hints

from regard.core.errors import ArgumentName, BadArgument, BadInput, Parts, shown


@dataclass(frozen=True)
class Flag:
    """How a front end shows an option, as metadata of an annotation.

    ``name`` is "--beam", by default the name of the field. ``default`` is a text in place of a
    default that says nothing. Numbers are from ``least`` to ``most``. An ``argument`` has no name;
    an option that ``is_output`` names a file or folder that is written.
    """

    name: str = ""
    help: str = ""
    metavar: str | None = None
    default: str = ""
    least: float | None = None
    most: float | None = None
    envvar: str | None = None
    section: str = ""
    argument: bool = False
    is_output: bool = False


@dataclass(frozen=True)
class Options:
    """Options of a function, and the section of a help text in which they stand.

    ``given`` names the fields that a user of a front end has set, also to their defaults.
    """

    section: ClassVar[str] = ""
    given: frozenset[str] = field(default=frozenset(), kw_only=True, compare=False, repr=False)

    @classmethod
    def flags(cls) -> dict[str, object]:
        """Annotations of all options, with their ``Flag``, by the name of the field."""
        hints = get_type_hints(cls, include_extras=True)
        return {each.name: hints[each.name] for each in fields(cls) if each.name != "given"}

    @property
    def used(self) -> set[str]:
        """Names of options that a user has set, or that have another value than their default."""
        changed = {f.name for f in fields(self) if getattr(self, f.name) != f.default}
        return (changed | self.given) - {"given"}

    def refuse(self, *names: str, reason: str) -> None:
        """Refuse options that are used."""
        refuse({name: name in self.used for name in names}, reason)


def refuse(values: Mapping[str, object], reason: str | Parts) -> None:
    """Refuse arguments that have a value; other texts are words of the message."""
    used = [
        ArgumentName(name) if name.islower() and name.isidentifier() else name
        for name, value in values.items()
        if value
    ]
    commas: Parts = tuple(part for name in used for part in (", ", name))
    if used:
        because = (reason,) if isinstance(reason, str) else reason
        raise BadInput((*commas[1:], ": ", *because))


def flag_of(hint: object) -> Flag | None:
    """The flag in an annotation, if there is one."""
    return next((each for each in get_args(hint) if isinstance(each, Flag)), None)


def parse_numbers(name: str, text: str) -> list[int]:
    """Numbers of layers, separated by commas, as the value of an argument."""
    numbers = [number.strip() for number in text.split(",")]
    if not all(number.isascii() and number.isdigit() for number in numbers):
        fault = f" {shown(text)}: give numbers with commas between them, as 0,3,6"
        raise BadInput((ArgumentName(name), fault))
    return [*map(int, numbers)]


def parse_pair(name: str, text: str, form: str) -> tuple[int, int]:
    """Two numbers with a comma between them, as the value of an argument; ``form`` says so."""
    match = re.fullmatch(r"\s*(\d{1,6})\s*,\s*(\d{1,6})\s*", text, re.ASCII)
    if match is None:
        raise BadArgument(f"{shown(text)} is not {form}", key=name)
    return int(match[1]), int(match[2])
