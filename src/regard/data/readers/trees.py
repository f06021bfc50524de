"""Reader of the Stanford Sentiment Treebank (Socher et al., 2013).

A line is a tree, ``(3 (2 It) (4 works))``. A bracket holds a label from 0 (very negative) to 4, and
a word or further brackets.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from regard.data.readers.examples import LabelledExample
from regard.data.readers.fields import BadExample, Dropped, parsed
from regard.data.readers.sources import Lines, read_texts

LABELS = ("0", "1", "2", "3", "4")
ESCAPES = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"}

_PART = re.compile(r"[()]|[^ \t()]+")  # no other space: "8 1/2" is one word, with a no-break one


@dataclass
class Bracket:
    """Phrase of a tree: words from `start` to `stop` (exclusive)."""

    column: int
    start: int
    stop: int = -1
    label: str = ""
    holds: str = ""


def sst5(path: Path, dropped: Dropped = None, phrases: bool = False) -> Iterator[LabelledExample]:
    """Read every sentence with its label; with `phrases`, every bracket."""
    for examples in parsed(read_texts(Lines((str(path),)), dropped=dropped), _examples, dropped):
        yield from examples if phrases else islice(examples, 1)


def _examples(where: str, line: str) -> Iterator[LabelledExample]:
    words, brackets = tree(line, where)
    phrases = ((" ".join(words[part.start : part.stop]), part.label) for part in brackets)
    return (LabelledExample(where, (phrase,), (label,)) for phrase, label in phrases)


def tree(line: str, where: str) -> tuple[list[str], list[Bracket]]:
    """The words of a tree, and its brackets in the order of their opening."""
    words: list[str] = []
    brackets: list[Bracket] = []
    unclosed: list[Bracket] = []
    for part in _PART.finditer(line):
        problem = _take(part[0], part.start() + 1, words, brackets, unclosed)
        if problem:
            detail = f"{part[0]!r} at column {part.start() + 1} {problem}"
            raise BadExample(where, "not a tree", detail)
    if unclosed:
        detail = f"the bracket at column {unclosed[-1].column} is never closed"
        raise BadExample(where, "not a tree", detail)
    return words, brackets


def _take(
    text: str, column: int, words: list[str], brackets: list[Bracket], unclosed: list[Bracket]
) -> str:
    """Parse one token of a line; return a description of the error, or ""."""
    inner = unclosed[-1] if unclosed else None
    if inner is None and (text != "(" or brackets):
        return "is outside of the tree"
    if inner and not inner.label:
        inner.label = text
        return "" if text in LABELS else "is not a label from 0 to 4"
    if inner and text == ")":
        inner.stop = len(words)
        unclosed.pop()
        return "" if inner.holds else "closes an empty bracket"
    if inner and (inner.holds == "a word" or (inner.holds and text != "(")):
        return f"is beside {inner.holds}"
    if inner:
        inner.holds = "brackets" if text == "(" else "a word"
    if text == "(":
        brackets.append(Bracket(column, start=len(words)))
        unclosed.append(brackets[-1])
    else:
        words.append(ESCAPES.get(text.upper(), text).replace("\\/", "/").replace("\\*", "*"))
    return ""
