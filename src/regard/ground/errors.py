"""The one exception a user is meant to see, and the exit codes of the command line."""

import re
from collections.abc import Collection
from difflib import get_close_matches

BAD_INPUT, INTERRUPTED = 2, 130  # exit codes
LONGEST = 2_000  # characters of a message
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
    return _cut(_VALUE.sub(lambda value: _cut(value[0], VALUE), _printable(message)), LONGEST)


def _printable(message: str) -> str:
    """Line breaks, control characters and halves of surrogates as Python writes them."""
    if message.isprintable():
        return message
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode() for one in message
    )


def _cut(text: str, most: int) -> str:
    half = most // 2 - 2
    return text if len(text) <= most else f"{text[:half]} … {text[-half:]}"


def did_you_mean(name: str, known: Collection[str]) -> str:
    """The end of a sentence about a name that is not known; capitals do not matter."""
    lower = {one.lower(): one for one in known}
    close = get_close_matches(name[:LONGEST].lower(), list(lower), n=1)
    if close:
        return f"; did you mean {lower[close[0]]!r}?"
    return f"; known: {', '.join(sorted(known)) or 'none'}"
