"""What BERT reads as one row: ``[CLS] a [SEP]`` or ``[CLS] a [SEP] b [SEP]``, and rows too long."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from regard.ground.batch import Ids, TokenRow
from regard.ground.errors import BadInput
from regard.text.words import Span


class Tagged(NamedTuple):
    """Words in a row: where the first piece of each stands, -1 for those that are not in it."""

    row: TokenRow
    firsts: list[int]


class Window(NamedTuple):
    """A question with a part of its context: which characters of the context each token covers."""

    row: TokenRow
    spans: tuple[Span | None, ...]


@dataclass(frozen=True)
class Template:
    """The tokens that stand around the texts of a row."""

    cls: int
    sep: int

    def row(
        self, a: Ids, b: Ids | None = None, longest: int | None = None, only_second: bool = False
    ) -> TokenRow:
        """One text or two; cut to ``longest`` tokens, marks counted, always at the end of a text.

        Of two texts the longer is cut until both are equally long, then both; or the second alone.
        """
        if longest is not None:
            room = self._room(longest, 2 if b is None else 3)
            if b is None:
                a = a[:room]
            else:
                first, second = _shares(len(a), len(b), room, only_second)
                a, b = a[:first], b[:second]
        second_half = [] if b is None else [b, [self.sep]]
        parts = [[self.cls], a, [self.sep], *second_half]
        tokens = np.concatenate(parts, dtype=np.int32, casting="unsafe")
        segments = np.zeros(len(tokens), dtype=np.int32)
        segments[len(a) + 2 :] = 1
        return TokenRow(tokens, segments)

    def tagged(self, words: Sequence[Sequence[int]], longest: int | None = None) -> Tagged:
        """Words that are cut already, in one row; those behind ``longest`` have no place in it."""
        pieces = [piece for word in words for piece in word]
        row = self.row(pieces, longest=longest)
        last = len(row.tokens) - 1
        starts = accumulate(map(len, words), initial=1)
        places = zip(words, starts, strict=False)
        return Tagged(row, [at if word and at < last else -1 for word, at in places])

    def windows_of_words(
        self, words: Sequence[Sequence[int]], longest: int, overlap: int | None = None
    ) -> list[Tagged]:
        """Rows that overlap, in which every word has one place: where it sees most around it.

        Rows share up to ``overlap`` pieces, by default a quarter of what fits. A word that has no
        pieces has no place.
        """
        room = self._room(longest, 2)
        overlap = room // 4 if overlap is None else overlap
        if not 0 <= overlap < room:
            raise BadInput(f"an overlap of {overlap} leaves nothing new in rows of {longest}")
        starts = [*accumulate(map(len, words), initial=0)]
        parts = list(_parts_of_words(starts, room, overlap))
        seen, owner = [-1] * len(words), [0] * len(words)
        for number, (begin, end) in enumerate(parts):
            for word in range(begin, end):
                context = min(starts[word] - starts[begin], starts[end] - starts[word + 1])
                if context > seen[word]:
                    seen[word], owner[word] = context, number
        rows = []
        for number, (begin, end) in enumerate(parts):
            row, places = self.tagged(words[begin:end], longest)
            own = [at if owner[begin + i] == number else -1 for i, at in enumerate(places)]
            rows.append(Tagged(row, [-1] * begin + own + [-1] * (len(words) - end)))
        return rows

    def windows(
        self, question: Ids, context: Ids, spans: Sequence[Span], longest: int, stride: int
    ) -> list[Window]:
        """The whole context in as many rows as it takes, each ``stride`` tokens into the last."""
        room = self._room(longest, 3 + len(question))
        if len(context) > room <= stride:
            raise BadInput(
                f"rows of {longest} with a question of {len(question)} have room for {room} tokens "
                f"of context: too few for a stride of {stride}"
            )
        before = (None,) * (len(question) + 2)
        windows = []
        for begin in range(0, len(context) or 1, max(1, room - stride)):
            end = min(begin + room, len(context))
            row = self.row(question, context[begin:end])
            windows.append(Window(row, (*before, *spans[begin:end], None)))
            if end == len(context):
                break
        return windows

    @staticmethod
    def _room(longest: int, taken: int) -> int:
        if longest <= taken:
            raise BadInput(f"rows of {longest} tokens have no room for text: {taken} are taken")
        return longest - taken


def _shares(first: int, second: int, room: int, only_second: bool) -> tuple[int, int]:
    """How much of two texts fits; an odd token goes to the longer, or else to the second."""
    if first + second <= room:
        return first, second
    if only_second:
        if first >= room:
            raise BadInput(f"a first text of {first} tokens leaves no room for a second")
        return first, room - first
    shorter = min(first, second, room // 2)
    return (room - shorter, shorter) if first > second else (shorter, room - shorter)


def _parts_of_words(starts: Sequence[int], room: int, overlap: int) -> Iterator[tuple[int, int]]:
    """Stretches of whole words that fit; a word that is too long alone is one of its own."""
    count, begin = len(starts) - 1, 0
    while True:
        end = begin
        while end < count and (end == begin or starts[end + 1] - starts[begin] <= room):
            end += 1
        yield begin, end
        if end == count:
            return
        following = end
        while following > begin + 1 and starts[end] - starts[following - 1] <= overlap:
            following -= 1
        while starts[end + 1] - starts[following] > room and following < end:
            following += 1  # or the next stretch would bring no new word
        begin = following
