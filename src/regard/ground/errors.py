"""The one exception a user is meant to see."""

from collections.abc import Collection
from difflib import get_close_matches

LONGEST = 2_000  # characters of a message


class BadInput(ValueError):
    """Something outside the program is wrong: a file, an option, a recipe.

    The message is one line that says what is wrong and where. The command line prints it and
    exits with code 2; nothing is half-written when it is raised. Of a message that repeats a very
    long value the middle is left out.
    """

    def __init__(self, message: str):
        super().__init__(_shortened(_printable(message)))


def _printable(message: str) -> str:
    """Line breaks, control characters and halves of surrogates as Python writes them."""
    if message.isprintable():
        return message
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode() for one in message
    )


def _shortened(message: str) -> str:
    if len(message) <= LONGEST:
        return message
    half = LONGEST // 2 - 2
    return f"{message[:half]} … {message[-half:]}"


def did_you_mean(name: str, known: Collection[str]) -> str:
    """The end of a sentence about a name that is not known; capitals do not matter."""
    lower = {one.lower(): one for one in known}
    close = get_close_matches(name.lower(), list(lower), n=1)
    if close:
        return f"; did you mean {lower[close[0]]!r}?"
    return f"; known: {', '.join(sorted(known)) or 'none'}"
