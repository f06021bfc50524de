"""How texts become rows: which special tokens stand around one text or two, and their segments."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from regard.ground.batch import Ids, TokenRow
from regard.ground.errors import BadInput
from regard.text.words import Span

TEXTS = ("A", "B")


class Part(NamedTuple):
    """A text, "A" or "B", or the role of a special token, "cls" or "sep", and its segment."""

    name: str
    segment: int = 0


@dataclass(frozen=True)
class Template:
    """The parts of a row of one text (``single``) and of two (``pair``), each with its segment.

    BERT's are "cls A sep" and "cls A sep B:1 sep:1"; a part without a number has segment 0. Without
    ``pair``, a row is made of one text alone.
    """

    single: str
    pair: str | None = None

    def parts(self, texts: int) -> tuple[Part, ...]:
        """Of a row of so many texts."""
        form = self.single if texts == 1 else self.pair
        if form is None:
            raise BadInput("this model reads one text at a time, not two")
        words = (part.partition(":") for part in form.split())
        return tuple(Part(name, int(segment or 0)) for name, _, segment in words)

    @property
    def summary(self) -> str | None:
        """Where the token stands that sums up a row: "first", "last", or None if there is none."""
        names = [part.name for part in self.parts(1)]
        return "first" if names[0] == "cls" else "last" if "cls" in names else None


class WordRow(NamedTuple):
    """Words in a row: the position of the first token of each, -1 for those that are not in it."""

    row: TokenRow
    firsts: list[int]


class ContextWindow(NamedTuple):
    """A question with a part of its context: the characters of the context that a token covers."""

    row: TokenRow
    spans: tuple[Span | None, ...]


@dataclass(frozen=True)
class RowFrame:
    """The special tokens of a row and their segments: before, between and after its texts.

    ``segments`` are those of the texts.
    """

    before: tuple[tuple[int, int], ...]
    between: tuple[tuple[int, int], ...]
    after: tuple[tuple[int, int], ...]
    segments: tuple[int, ...]

    @property
    def specials(self) -> int:
        """Special tokens of a row with as many texts as there are segments."""
        return len(self.before) + len(self.between) * (len(self.segments) - 1) + len(self.after)


@dataclass(frozen=True)
class RowBuilder:
    """A template with the ids of its special tokens, by their roles."""

    template: Template
    special: Mapping[str, int]

    @property
    def summary(self) -> str | None:
        """Where the summary token stands; see ``Template``."""
        return self.template.summary

    def summary_position(self, length: int) -> int:
        """The position of the summary token in a row of that length; else of the first token."""
        return length - 1 if self.summary == "last" else 0

    def specials(self, texts: int) -> int:
        """How many special tokens a row of so many texts has."""
        return sum(part.name not in TEXTS for part in self.template.parts(texts))

    def begin(self, text: str, before: int = 0) -> int:
        """The position of the first token of text "A", or of "B" where A has ``before`` tokens."""
        names = [part.name for part in self.template.parts(1 + TEXTS.index(text))]
        return names.index(text) + (before - 1 if text == "B" else 0)

    def frame(self, texts: int) -> RowFrame:
        """What stands around so many texts; between parts of one text, the separator if any."""
        parts = self.template.parts(texts)
        at = [number for number, part in enumerate(parts) if part.name in TEXTS]
        ids = [(self.special.get(name, -1), segment) for name, segment in parts]
        segments = tuple(parts[number].segment for number in at)
        between = ids[at[0] + 1 : at[-1]] if texts > 1 else self._separator(segments[0])
        return RowFrame((*ids[: at[0]],), (*between,), (*ids[at[-1] + 1 :],), segments)

    def _separator(self, segment: int) -> list[tuple[int, int]]:
        return [(self.special["sep"], segment)] if "sep" in self.special else []

    def row(
        self, a: Ids, b: Ids | None = None, longest: int | None = None, only_second: bool = False
    ) -> TokenRow:
        """One text or two, truncated at their ends to ``longest`` tokens, special ones counted.

        Of two texts the longer is cut until both are equally long, then both; or the second alone.
        """
        texts = 1 if b is None else 2
        if longest is not None:
            room = self._room(longest, self.specials(texts))
            if b is None:
                a = a[:room]
            else:
                first, second = _shares(len(a), len(b), room, only_second)
                a, b = a[:first], b[:second]
        given: dict[str, Ids] = {"A": a} if b is None else {"A": a, "B": b}
        parts = [
            (given[name] if name in given else [self.special[name]], segment)
            for name, segment in self.template.parts(texts)
        ]
        tokens = np.concatenate([ids for ids, _ in parts], dtype=np.int32, casting="unsafe")
        segments = np.repeat([one for _, one in parts], [len(ids) for ids, _ in parts])
        return TokenRow(tokens, segments.astype(np.int32))

    def row_of_words(self, words: Sequence[Sequence[int]], longest: int | None = None) -> WordRow:
        """The tokens of words in one row; a word that begins beyond ``longest`` is not in it."""
        pieces = [piece for word in words for piece in word]
        row, begin = self.row(pieces, longest=longest), self.begin("A")
        end = begin + len(row.tokens) - self.specials(1)
        places = zip(words, accumulate(map(len, words), initial=begin), strict=False)
        return WordRow(row, [at if word and at < end else -1 for word, at in places])

    def windows_of_words(
        self, words: Sequence[Sequence[int]], longest: int, overlap: int | None = None
    ) -> list[WordRow]:
        """Rows that overlap; every word has a position in the one that shows most context of it.

        Rows share up to ``overlap`` tokens, by default a quarter of what fits. A word that has no
        tokens has no position.
        """
        room = self._room(longest, self.specials(1))
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
            row, places = self.row_of_words(words[begin:end], longest)
            own = [at if owner[begin + i] == number else -1 for i, at in enumerate(places)]
            rows.append(WordRow(row, [-1] * begin + own + [-1] * (len(words) - end)))
        return rows

    def windows(
        self, question: Ids, context: Ids, spans: Sequence[Span], longest: int, stride: int
    ) -> list[ContextWindow]:
        """The whole context in as many rows as it takes; two neighbours share ``stride`` tokens."""
        room = self._room(longest, self.specials(2) + len(question))
        if len(context) > room <= stride:
            raise BadInput(
                f"rows of {longest} with a question of {len(question)} have room for {room} tokens "
                f"of context: too few for a stride of {stride}"
            )
        before = self.begin("B", len(question))
        after = self.specials(2) + len(question) - before
        windows = []
        for begin in range(0, len(context) or 1, max(1, room - stride)):
            end = min(begin + room, len(context))
            row = self.row(question, context[begin:end])
            covered = ((None,) * before, spans[begin:end], (None,) * after)
            windows.append(ContextWindow(row, tuple(span for part in covered for span in part)))
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
