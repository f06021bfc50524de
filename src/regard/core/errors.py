"""The exception for wrong input, its messages, and the exit codes of the command line."""

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice
from typing import ClassVar

from regard.core.other_names import our_name

FAILED, BAD_INPUT, INTERRUPTED = 1, 2, 130  # exit codes
LONGEST = 2_000  # characters of a message
REASON = 500  # characters of another library's message in it
VALUE = 80  # characters of a long value in it
NAMES = 12  # of columns, files, ... that a message lists
_VALUE = re.compile(r"\S{257,}")


Word = Callable[[str], str]
"""Function that writes a name as a front end does."""


@dataclass(frozen=True)
class KeyName:
    """A key or a field in a message; each front end writes it in its own way."""

    name: str
    quoted: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The name itself, as an error has ``names``."""
        return (self.name,)

    def text(self, key: Word, argument: Word) -> str:
        """The name as ``key`` writes it."""
        return repr(key(self.name)) if self.quoted else key(self.name)


class ArgumentName(KeyName):
    """An argument of a function in a message; it is an option of a verb."""

    def text(self, key: Word, argument: Word) -> str:
        """The name as ``argument`` writes it."""
        return super().text(argument, argument)


class BadInput(ValueError):
    """Error in an input: a file, an option, a recipe, an argument.

    The message is one line that says what is wrong, where, and what to do. The command line prints
    it and exits with ``code``; nothing is half-written when it is raised. Very long values in a
    message are shortened in the middle. ``what`` is a text, or parts of one: texts, names of keys,
    and the error of an inner input. Its text is "FILE:LINE: KEYS: WHAT; REMEDY".
    """

    code: ClassVar[int] = BAD_INPUT

    def __init__(
        self,
        what: "str | Parts",
        *,
        key: str | Sequence[str] = (),
        file: object = None,
        line: int | None = None,
        remedy: "str | Parts" = "",
    ):
        self.what: Parts = what if isinstance(what, tuple) else (what,)
        self.key = (key,) if isinstance(key, str) else tuple(key)
        self.file, self.line = file, line
        self.remedy: Parts = remedy if isinstance(remedy, tuple) else (remedy,)
        super().__init__(self.text())

    def __reduce__(self) -> tuple[Callable[..., "BadInput"], tuple[object, ...]]:
        return _restored, (type(self), self.args, self.__dict__)

    @property
    def names(self) -> tuple[str, ...]:
        """Keys that the error is about: the keys of its place, then the keys in its text."""
        names = list(self.key)
        for part in self.what:
            names += () if isinstance(part, str) else part.names
        return tuple(dict.fromkeys(names))

    def text(self, key: Word = str, argument: Word = str) -> str:
        """The message, in which ``key`` and ``argument`` write names; default: as Python does."""
        line = "" if self.line is None else f":{self.line}"
        file = "" if self.file is None else f"{self.file}{line}: "
        keys = f"{', '.join(map(key, self.key))}: " if self.key else ""
        what, remedy = (_joined(parts, key, argument) for parts in (self.what, self.remedy))
        return one_line(f"{file}{keys}{what}{'; ' if remedy else ''}{remedy}")


Parts = tuple[str | KeyName | BadInput, ...]


def _joined(parts: Parts, key: Word, argument: Word) -> str:
    return "".join(part if isinstance(part, str) else part.text(key, argument) for part in parts)


def _restored(
    kind: type[BadInput], args: tuple[object, ...], values: dict[str, object]
) -> BadInput:
    """An error of another process, with its values."""
    error = kind.__new__(kind, *args)
    error.__dict__.update(values)
    return error


class BadFact(BadInput):
    """Error in facts; the message begins with the name of the field."""

    def __init__(self, name: str, what: str):
        super().__init__((KeyName(name), f" {what}"))


class BadArgument(BadInput):
    """Error in arguments of a function, the ``key``; they are options of a verb."""

    def text(self, key: Word = str, argument: Word = str) -> str:
        return super().text(argument, argument)


class BadKeyword(BadInput, TypeError):
    """Error in a call: no argument has this name."""


class BadItem(BadInput):
    """Error in one of several inputs: its ``number``, and the ``reason``.

    A caller that knows the origin of the input (file and line) reports that instead of the number.
    """

    def __init__(self, number: int, reason: str):
        super().__init__(f"input {number}: {reason}")
        self.number, self.reason = number, reason


class DataWarning(UserWarning):
    """Something that was found in a file, not declared: the reader should check it."""


def one_line(message: str) -> str:
    """A message as one printable line; very long values are shortened in the middle."""
    return shorten(_VALUE.sub(lambda value: shorten(value[0]), _printable(message)), LONGEST)


def shown(value: object) -> str:
    """A wrong value as its ``repr``, on one line, shortened in the middle if it is long."""
    shape = getattr(value, "shape", ())
    if isinstance(shape, tuple) and shape:  # of a tensor or an array
        return f"a {type(value).__name__} of shape {tuple(shape)}"
    text = repr(shorten(value)) if isinstance(value, str) else " ".join(repr(value).split())
    return shorten(_printable(text))


def reason_of(error: BaseException) -> str:
    """The message of another library's error, on one line."""
    return shorten(" ".join(str(error).split()), REASON)


def shorten(text: str, most: int = VALUE) -> str:
    """A text of at most ``most`` characters, shortened in the middle if it is longer."""
    half = most // 2 - 2
    return text if len(text) <= most else f"{text[:half]} … {text[-half:]}"


def first_names(names: Iterable[object], most: int = NAMES) -> str:
    """The first of several names, with commas between them, and the number of the others."""
    rest = iter(names)
    listed = [shorten(str(name)) for name in islice(rest, most)]
    more = sum(1 for _ in rest)
    return ", ".join(listed) + (f", and {more:,} more" if more else "")


def _printable(message: str) -> str:
    """Line breaks, control characters and surrogates as Python escapes."""
    if message.isprintable():
        return message
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in message
    )


def did_you_mean(name: str, known: Collection[str]) -> str:
    """End of a message about an unknown name: the nearest known name, else all of them.

    A name of another library, such as lr, is nearest to our name of the same thing.
    """
    if (ours := our_name(name)) in known:
        return f"; did you mean {ours!r}?"
    lower = {each.lower(): each for each in known}
    close = get_close_matches(name[:LONGEST].lower(), list(lower), n=1)
    if close:
        return f"; did you mean {lower[close[0]]!r}?"
    return f"; known: {', '.join(sorted(known)) or 'none'}"
