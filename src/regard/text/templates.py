"""Rows of a model from texts: special tokens around one text or two, segments, truncation.

A ``Template`` names the parts of a row; a ``RowBuilder`` knows the ids of its special tokens, and
builds rows of one text, of two, of words, and windows over long texts.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import NamedTuple

import numpy as np

from regard.core.batch import Ids, TokenRow
from regard.core.errors import BadInput
from regard.text.words import Span

TEXTS = ("A", "B")
FIELD_MARK = "\x1f"  # between the name of a field of a record and its text


class Part(NamedTuple):
    """Part of a row: a text ("A", "B") or a special token ("cls", "sep"), and its segment."""

    name: str
    segment: int = 0


@dataclass(frozen=True)
class Template:
    """The parts of a row of one text (``single``) and of two texts (``pair``).

    BERT's are "cls A sep" and "cls A sep B:1 sep:1": the number is the segment, by default 0. A
    model without ``pair`` reads one text at a time.
    """

    single: str
    pair: str | None = None

    def parts(self, texts: int) -> tuple[Part, ...]:
        """The parts of a row of one text or two."""
        form = self.single if texts == 1 else self.pair
        if form is None:
            raise BadInput("this model reads one text at a time, not two")
        words = (part.partition(":") for part in form.split())
        return tuple(Part(name, int(segment or 0)) for name, _, segment in words)

    @property
    def summary(self) -> str | None:
        """The place of the class token in a row: "first", "last", or None."""
        names = [part.name for part in self.parts(1)]
        return "first" if names[0] == "cls" else "last" if "cls" in names else None


XLNET_TEMPLATE = Template("A sep cls:2", "A sep B:1 sep:1 cls:2")


class WordRow(NamedTuple):
    """Row of words of a sentence, which are labelled at their first tokens.

    ``words`` are the indices, in the sentence, of the words to be read from this row;
    ``first_tokens`` is the position of each in the row.
    """

    row: TokenRow
    words: list[int]
    first_tokens: list[int]


class ContextWindow(NamedTuple):
    """Row of a question and a part of its context.

    ``spans`` are the characters of the context that each token covers; None for other tokens.
    ``summary`` is the position of the summary token, by default the first.
    """

    row: TokenRow
    spans: tuple[Span | None, ...]
    summary: int = 0


@dataclass(frozen=True)
class RowFrame:
    """Special tokens (id, segment) before, between and after the texts of a row.

    ``segments`` are the segments of the texts.
    """

    before: tuple[tuple[int, int], ...]
    between: tuple[tuple[int, int], ...]
    after: tuple[tuple[int, int], ...]
    segments: tuple[int, ...]

    @property
    def specials(self) -> int:
        """The number of special tokens of a row with as many texts as there are segments."""
        return len(self.before) + len(self.between) * (len(self.segments) - 1) + len(self.after)


@dataclass(frozen=True)
class RowBuilder:
    """Builder of rows by a template; ``special`` are the ids of "cls" and "sep"."""

    template: Template
    special: Mapping[str, int]

    @property
    def separator(self) -> int | None:
        """The token between documents, or None."""
        return self.special.get("sep")

    def separated(self, document: Sequence[int]) -> list[int]:
        """A document after the separator, if there is one."""
        return [*([] if self.separator is None else [self.separator]), *document]

    def specials(self, texts: int) -> int:
        """The number of special tokens in a row of one text or two."""
        return sum(part.name not in TEXTS for part in self.template.parts(texts))

    def text_start(self, text: str, before: int = 0) -> int:
        """The position of the first token of text "A", or of "B" where A has ``before`` tokens."""
        names = [part.name for part in self.template.parts(1 + TEXTS.index(text))]
        return names.index(text) + (before - 1 if text == "B" else 0)

    def frame(self, texts: int) -> RowFrame:
        """The special tokens around one text or two; the parts of one text are separated by sep."""
        parts = self.template.parts(texts)
        at = [number for number, part in enumerate(parts) if part.name in TEXTS]
        ids = [(self.special.get(name, -1), segment) for name, segment in parts]
        segments = tuple(parts[number].segment for number in at)
        documents = [(token, segments[0]) for token in self.separated([])]
        between = ids[at[0] + 1 : at[-1]] if texts > 1 else documents
        return RowFrame((*ids[: at[0]],), (*between,), (*ids[at[-1] + 1 :],), segments)

    def row(
        self, a: Ids, b: Ids | None = None, longest: int | None = None, only_second: bool = False
    ) -> TokenRow:
        """A row of one text or two, of at most ``longest`` tokens including special ones.

        Texts are truncated at the end: first the longer of two, then both evenly; or only the
        second.
        """
        texts = 1 if b is None else 2
        if longest is not None:
            room = self._room(longest, self.specials(texts))
            if b is None:
                a = a[:room]
            else:
                first, second = _shares(len(a), len(b), room, only_second)
                a, b = a[:first], b[:second]
        ids: dict[str, Ids] = {**{name: [i] for name, i in self.special.items()}, "A": a}
        if b is not None:
            ids["B"] = b
        parts = [(ids[name], segment) for name, segment in self.template.parts(texts)]
        filled = [part for part, _ in parts if len(part)] or [[]]
        tokens = np.concatenate(filled, dtype=np.int32, casting="unsafe")
        segments = np.repeat([segment for _, segment in parts], [len(part) for part, _ in parts])
        return TokenRow(tokens, segments.astype(np.int32))

    def row_of_words(self, words: Sequence[Sequence[int]], longest: int | None = None) -> WordRow:
        """Row of words, each as its token ids, truncated to ``longest``."""
        row = self.row([token for word in words for token in word], longest=longest)
        first, starts = self.text_start("A"), accumulate(map(len, words), initial=0)
        size = len(row.tokens) - self.specials(1)
        places = enumerate(zip(words, starts, strict=False))
        inside = {number: first + at for number, (word, at) in places if word and at < size}
        return WordRow(row, [*inside], [*inside.values()])

    def windows_of_words(
        self, words: Sequence[Sequence[int]], longest: int, overlap: int | None = None
    ) -> list[WordRow]:
        """Overlapping rows of at most ``longest`` tokens that together hold all words.

        Neighbouring rows share up to ``overlap`` tokens, by default a quarter of a row. A word in
        several rows is listed in the one where it has most context on its shorter side. A word
        without tokens is in no row.
        """
        room = self._room(longest, self.specials(1))
        overlap = room // 4 if overlap is None else overlap
        if not 0 <= overlap < room:
            raise BadInput(
                f"an overlap of {overlap} tokens is too large for rows of {longest} tokens"
            )
        starts = [*accumulate(map(len, words), initial=0)]
        windows = list(_parts_of_words(starts, room, overlap))
        context, best = [-1] * len(words), [0] * len(words)
        for window, (begin, end) in enumerate(windows):
            for word in range(begin, end):
                sides = starts[word] - starts[begin], starts[end] - starts[word + 1]
                if min(sides) > context[word]:
                    context[word], best[word] = min(sides), window
        rows = []
        for window, (begin, end) in enumerate(windows):
            row, numbers, first_tokens = self.row_of_words(words[begin:end], longest)
            pairs = zip(numbers, first_tokens, strict=True)
            listed = {begin + i: at for i, at in pairs if best[begin + i] == window}
            rows.append(WordRow(row, [*listed], [*listed.values()]))
        return rows

    def row_around(
        self, words: Sequence[Sequence[int]], at: int, longest: int, *, as_pair: bool = False
    ) -> WordRow:
        """Row of as many words around word ``at`` as fit, in which that word is marked.

        The tokens of that word have segment 1, or, ``as_pair``, the segment of the second text,
        which is the word once more.
        """
        again = words[at][: longest // 4] if as_pair else None
        room = self._room(longest, self.specials(2) + len(again) if again else self.specials(1))
        begin, end = _around([*map(len, words)], at, room)
        row = self.row([token for word in words[begin:end] for token in word][:room], again)
        starts = accumulate(map(len, words[begin:end]), initial=self.text_start("A"))
        places = dict(zip(range(begin, end), starts, strict=False))
        segments = np.array(row.segments)
        marked = slice(places[at], places[at] + min(len(words[at]), room))
        segments[marked] = self.frame(2).segments[1] if as_pair else 1
        return WordRow(row._replace(segments=segments), [*places], [*places.values()])

    def text_windows(
        self, a: Ids, b: Ids | None, longest: int, stride: int | None = None
    ) -> list[TokenRow]:
        """Rows of at most ``longest`` tokens that together hold a text; neighbours share tokens.

        They share ``stride`` tokens, at most half a window; by default a quarter. Of two texts, the
        longer is divided, and each row has the other one, truncated to half a row.
        """
        room = self._room(longest, self.specials(1 if b is None else 2))
        if len(a) + (0 if b is None else len(b)) <= room:
            return [self.row(a, b)]
        if b is None:
            return [self.row(part) for part in _parts(a, room, stride)]
        if len(a) < len(b):
            a = a[: room // 2]
            return [self.row(a, part) for part in _parts(b, room - len(a), stride)]
        b = b[: room // 2]
        return [self.row(part, b) for part in _parts(a, room - len(b), stride)]

    def windows(
        self, question: Ids, context: Ids, spans: Sequence[Span], longest: int, stride: int
    ) -> list[ContextWindow]:
        """Rows of a question and a window of the context; neighbours share ``stride`` tokens."""
        room = self._room(longest, self.specials(2) + len(question))
        if len(context) > room <= stride:
            here = f"rows of {longest} tokens with a question of {len(question)}"
            few = f"{room} tokens of context: too few for a stride of {stride}"
            raise BadInput(f"{here} have room for {few}")
        before = self.text_start("B", len(question))
        after = self.specials(2) + len(question) - before
        windows = []
        for begin in range(0, len(context) or 1, max(1, room - stride)):
            end = min(begin + room, len(context))
            row = self.row(question, context[begin:end])
            covered = ((None,) * before, spans[begin:end], (None,) * after)
            summary = len(row.tokens) - 1 if self.template.summary == "last" else 0
            windows.append(ContextWindow(row, tuple(chain(*covered)), summary))
            if end == len(context):
                break
        return windows

    @staticmethod
    def _room(longest: int, used: int) -> int:
        if longest <= used:
            raise BadInput(f"rows of {longest} tokens have no room for text beside {used} others")
        return longest - used


def _shares(first: int, second: int, room: int, only_second: bool) -> tuple[int, int]:
    """The lengths to which two texts are truncated; an odd token goes to the longer, or second."""
    if first + second <= room:
        return first, second
    if only_second:
        if first >= room:
            raise BadInput(f"a first text of {first} tokens leaves no room for a second")
        return first, room - first
    shorter = min(first, second, room // 2)
    return (room - shorter, shorter) if first > second else (shorter, room - shorter)


def _parts(ids: Ids, room: int, stride: int | None) -> Iterator[Ids]:
    """Overlapping parts of at most ``room`` ids."""
    shared = room // 4 if stride is None else min(stride, room // 2)
    for begin in range(0, max(1, len(ids) - shared), room - shared):
        yield ids[begin : begin + room]


def _around(sizes: Sequence[int], at: int, room: int) -> tuple[int, int]:
    """Range of items around item ``at`` whose sizes fit, as many on either side as there are."""
    begin, end, used = at, at + 1, sizes[at]
    grows = True
    while grows:
        grows = False
        if begin and used + sizes[begin - 1] <= room:
            begin, used, grows = begin - 1, used + sizes[begin - 1], True
        if end < len(sizes) and used + sizes[end] <= room:
            used, end, grows = used + sizes[end], end + 1, True
    return begin, end


def _parts_of_words(starts: Sequence[int], room: int, overlap: int) -> Iterator[tuple[int, int]]:
    """Windows [begin, end) of whole words that fit; a word that is too long has its own window."""
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
            following += 1  # or the next window would bring no new word
        begin = following
