"""Texts that callers give: what is wrong with one is ``BadItem``, with its number."""

from typing import Any

from regard.ground.errors import BadInput, BadItem, shown


def check_text(one: Any, number: int, fault: str = "not a text") -> str:
    """One text, which can be written as UTF-8."""
    if not isinstance(one, str):
        raise BadItem(number, f"{shown(one)} is {fault}")
    if not one.isascii():
        try:
            one.encode()
        except UnicodeEncodeError:
            raise BadItem(number, f"a character of {shown(one)} is no Unicode") from None
    return one


def one_or_two_texts(given: Any, number: int) -> tuple[str, ...]:
    """A text, or a pair of texts, as a tuple; ``number`` is that of the input."""
    pair = isinstance(given, tuple | list) and len(given) == 2
    if not isinstance(given, str) and not (pair and all(isinstance(text, str) for text in given)):
        raise BadItem(number, f"{shown(given)} is neither a text nor a pair of texts")
    texts = (given,) if isinstance(given, str) else given
    return tuple(check_text(text, number) for text in texts)


def text_or_pair(line: str, where: str) -> str | tuple[str, str]:
    """The text in a line, or the two texts with a tab between them."""
    first, *others = line.split("\t")
    if len(others) > 1:
        raise BadInput(f"{where}: {len(others) + 1} texts between tabs; give one or two")
    return (first, others[0]) if others else first
