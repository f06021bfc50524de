"""The one exception a user is meant to see, and the exit codes of the command line."""

import re
from collections.abc import Collection
from difflib import get_close_matches
from typing import Any

BAD_INPUT, INTERRUPTED = 2, 130  # exit codes
LONGEST = 2_000  # characters of a message
REASON = 500  # of what another library says in it
VALUE = 80  # of a value in it that is longer than any sensible name
_VALUE = re.compile(r"\S{257,}")


class BadInput(ValueError):
    """Something outside the program is wrong: a file, an option, a recipe.

    The message is one line that says what is wrong and where. The command line prints it and
    exits with code 2; nothing is half-written when it is raised. Of a message that repeats a very
    long value the middle is left out.
    """

    def __init__(self, message: str):
        super().__init__(one_line(message))


class BadItem(BadInput):
    """One of several inputs is wrong: input ``number``, and ``reason`` says why.

    A caller that knows where the input came from replaces the number by the place.
    """

    def __init__(self, number: int, reason: str):
        super().__init__(f"input {number}: {reason}")
        self.number, self.reason = number, reason

    def __reduce__(self) -> tuple[type["BadItem"], tuple[int, str]]:
        return BadItem, (self.number, self.reason)


def one_line(message: str) -> str:
    """A message that a terminal can show: printable, and of a very long value its two ends."""
    return shorten(_VALUE.sub(lambda value: shorten(value[0]), _printable(message)), LONGEST)


def shown(value: Any) -> str:
    """A wrong value as Python writes it, on one line; of a long one its two ends."""
    shape = getattr(value, "shape", ())
    if isinstance(shape, tuple) and shape:  # of a tensor or an array
        return f"a {type(value).__name__} of shape {tuple(shape)}"
    said = repr(shorten(value)) if isinstance(value, str) else " ".join(repr(value).split())
    return shorten(_printable(said))


def reason_of(error: BaseException) -> str:
    """What an error of another library says, on one line."""
    return shorten(" ".join(str(error).split()), REASON)


def shorten(text: str, most: int = VALUE) -> str:
    """A text of at most ``most`` characters: the middle of a longer one is left out."""
    half = most // 2 - 2
    return text if len(text) <= most else f"{text[:half]} … {text[-half:]}"


def _printable(message: str) -> str:
    """Line breaks, control characters and halves of surrogates as Python writes them."""
    if message.isprintable():
        return message
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode() for one in message
    )


def did_you_mean(name: str, known: Collection[str]) -> str:
    """The end of a sentence about a name that is not known; capitals do not matter."""
    lower = {one.lower(): one for one in known}
    close = get_close_matches(name[:LONGEST].lower(), list(lower), n=1)
    if close:
        return f"; did you mean {lower[close[0]]!r}?"
    return f"; known: {', '.join(sorted(known)) or 'none'}"
