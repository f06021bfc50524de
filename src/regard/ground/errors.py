"""The exception for wrong input, its messages, and the exit codes of the command line."""

import re
from collections.abc import Collection
from difflib import get_close_matches
from typing import ClassVar

FAILED, BAD_INPUT, INTERRUPTED = 1, 2, 130  # exit codes
LONGEST = 2_000  # characters of a message
REASON = 500  # characters of another library's message in it
VALUE = 80  # characters of a long value in it
_VALUE = re.compile(r"\S{257,}")


class BadInput(ValueError):
    """Error in an input: a file, an option, a recipe, an argument.

    The message is one line that says what is wrong and where. The command line prints it and exits
    with ``code``; nothing is half-written when it is raised. Very long values in a message are
    shortened in the middle.
    """

    code: ClassVar[int] = BAD_INPUT

    def __init__(self, message: str):
        super().__init__(one_line(message))


class BadKeyword(BadInput, TypeError):
    """Error in a call: no argument has this name."""


class BadItem(BadInput):
    """Error in one of several inputs: its ``number``, and the ``reason``.

    A caller that knows the origin of the input (file and line) reports that instead of the number.
    """

    def __init__(self, number: int, reason: str):
        super().__init__(f"input {number}: {reason}")
        self.number, self.reason = number, reason

    def __reduce__(self) -> tuple[type["BadItem"], tuple[int, str]]:
        return BadItem, (self.number, self.reason)


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


def _printable(message: str) -> str:
    """Line breaks, control characters and surrogates as Python escapes."""
    if message.isprintable():
        return message
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in message
    )


def did_you_mean(name: str, known: Collection[str]) -> str:
    """End of a message about an unknown name: the nearest known name, else all of them."""
    lower = {each.lower(): each for each in known}
    close = get_close_matches(name[:LONGEST].lower(), list(lower), n=1)
    if close:
        return f"; did you mean {lower[close[0]]!r}?"
    return f"; known: {', '.join(sorted(known)) or 'none'}"
