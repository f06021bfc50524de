"""The one exception a user is meant to see."""

from collections.abc import Collection
from difflib import get_close_matches


class BadInput(Exception):
    """Something outside the program is wrong: a file, an option, a recipe.

    The message is one line that says what is wrong and where. The command line prints it and
    exits with code 2; nothing is half-written when it is raised.
    """


def did_you_mean(name: str, known: Collection[str]) -> str:
    """The end of a sentence about a name that is not known; capitals do not matter."""
    lower = {one.lower(): one for one in known}
    close = get_close_matches(name.lower(), list(lower), n=1)
    if close:
        return f"; did you mean {lower[close[0]]!r}?"
    return f"; known: {', '.join(sorted(known)) or 'none'}"
