"""Documents in parts, such that tokenising the parts gives the tokens of the whole text.

A text is cut before a single space between two words, where every family of tokenizers splits:
words are tokenised one by one, and a space belongs to the following word or to none.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from regard.data.files.fields import Dropped
from regard.ground.batch import Ids

SIZE = 1 << 16  # characters of a part, about
AT_SPACE = re.compile(r"(?<=\w)(?= \w)")
AT_LINE = re.compile(r"(?<=\S\n)(?=\w)")  # where there are no spaces: see ``cuts_at_lines``

Encode = Callable[[list[str]], Sequence[Ids]]
Item = TypeVar("Item")


class DocumentPart(NamedTuple):
    """Part of a document: sentences, or a piece of its whole text; empty for an empty document."""

    texts: list[str]
    is_last: bool = True  # of its document


class DocumentReader(ABC):
    """Base class of sources of documents, each of which fits into memory and is one part."""

    @abstractmethod
    def documents(self, dropped: Dropped) -> Iterator[list[str]]:
        """The sentences of every document."""

    @abstractmethod
    def texts(self, dropped: Dropped) -> Iterator[str]:
        """The text of every document."""

    def parts(
        self, dropped: Dropped, *, whole: bool, at_lines: bool = True
    ) -> Iterator[DocumentPart]:
        """The sentences of every document, or its ``whole`` text as one."""
        if whole:
            return (DocumentPart([text] if text else []) for text in self.texts(dropped))
        return map(DocumentPart, self.documents(dropped))


def text_parts(blocks: Iterable[str], *, at_lines: bool = True) -> Iterator[str]:
    """The text of all blocks in parts of about ``SIZE`` characters, none of which is empty.

    Without a place to cut, a part is longer; ``at_lines``: a text may also be cut between lines.
    """
    rest, searched = "", 0  # how far a place was looked for in vain
    patterns = (AT_SPACE, AT_LINE) if at_lines else (AT_SPACE,)
    for block in blocks:
        rest += block
        while len(rest) - searched >= 2 * SIZE:
            place = _place(rest, max(SIZE, searched), patterns)
            if place is None:
                searched = len(rest) - 2  # a place may need two characters before it
                break
            yield rest[:place]
            rest, searched = rest[place:], 0
    if rest:
        yield rest


def batched_by_size(
    items: Iterable[Item], size: Callable[[Item], int], least: int
) -> Iterator[list[Item]]:
    """Lists of successive items whose sizes add up to ``least`` or a little more."""
    batch, total = list[Item](), 0
    for item in items:
        batch.append(item)
        total += size(item)
        if total >= least:
            yield batch
            batch, total = [], 0
    if batch:
        yield batch


def _place(text: str, start: int, patterns: Iterable[re.Pattern[str]]) -> int | None:
    """First place to cut from ``start`` on, by the first of the patterns that matches."""
    matches = (pattern.search(text, start) for pattern in patterns)
    return next((match.start() for match in matches if match is not None), None)


def cuts_at_lines(encode: Encode) -> bool:
    """Whether a line has the same tokens alone as after another line.

    Not so with ``add_prefix_space``: every text begins with a space, but not every line in it.
    """
    both, first, second = map(list, encode(["a\nb", "a\n", "b"]))
    return both == first + second
