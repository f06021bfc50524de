"""Rows of the words of a document, and the spans that may be mentions.

A row is a sentence (Lee et al., 2017), or a segment of as many whole sentences as it has room for
(Joshi et al., 2019). A sentence that is longer than a row is divided between words.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice, pairwise

import numpy as np

from regard.core.batch import TokenRow
from regard.core.errors import BadInput
from regard.data.batches.packing import successive_groups
from regard.data.readers.examples import Mention
from regard.text.tokenizers.row_tokenizer import RowTokenizer

Pieces = Sequence[Sequence[int]]  # tokens of each word


@dataclass(frozen=True, eq=False)
class DocumentRows:
    """Rows of a document.

    ``places`` has, for each word, its row and its first and last token in the row; ``parts`` the
    number of its sentence, or part of a divided sentence. Words are counted from ``begin``.
    """

    rows: list[TokenRow]
    places: np.ndarray
    parts: np.ndarray
    begin: int = 0

    @property
    def tokens(self) -> int:
        """The number of tokens of all rows."""
        return sum(len(row.tokens) for row in self.rows)

    def candidates(self, widest: int) -> np.ndarray:
        """All spans (first word, last word + 1) of at most ``widest`` words within a sentence."""
        words = np.arange(len(self.parts))
        spans = []
        for width in range(min(widest, len(words))):
            start = words[: len(words) - width]
            inside = start[self.parts[start] == self.parts[start + width]]
            spans.append(np.stack([inside, inside + width + 1], 1))
        every = np.concatenate(spans) if spans else np.zeros((0, 2), np.int64)
        return self.begin + every[np.lexsort(every.T[::-1])]

    def holds(self, mention: Mention) -> bool:
        """Whether all words of a mention are in one part of one row."""
        start, end = mention[0] - self.begin, mention[1] - self.begin
        inside = 0 <= start < end <= len(self.parts)
        return inside and self.parts[start] == self.parts[end - 1]

    def divided(self, most: int) -> Iterator["DocumentRows"]:
        """Documents of successive rows, of at most ``most`` tokens each, or of one row."""
        for first, last in successive_groups([len(row.tokens) for row in self.rows], most):
            begin, end = np.searchsorted(self.places[:, 0], [first, last])
            places = self.places[begin:end] - [first, 0, 0]
            rows, parts = self.rows[first:last], self.parts[begin:end]
            yield replace(self, rows=rows, places=places, parts=parts, begin=self.begin + begin)


def document_rows(
    tokenizer: RowTokenizer,
    documents: Sequence[Sequence[Sequence[str]]],
    segment: int,
    longest: int | None,
) -> list[DocumentRows]:
    """Rows of documents of sentences: segments of at most ``segment`` tokens; 0: sentences."""
    words = [*chain.from_iterable(chain.from_iterable(documents))]
    pieces = iter(tokenizer.pieces(words))  # of all words at once: tokenizers batch
    limit = min((size for size in (segment, longest) if size), default=None)
    return [
        _rows(tokenizer, [[*islice(pieces, len(words))] for words in sentences], segment, limit)
        for sentences in documents
    ]


def _rows(
    tokenizer: RowTokenizer, sentences: Sequence[Pieces], segment: int, limit: int | None
) -> DocumentRows:
    template = tokenizer.template
    room = None if limit is None else limit - template.specials(1)
    if room is not None and room < 1:
        raise BadInput(f"rows of {limit} tokens have no room for a word beside special tokens")
    parts = [part for sentence in sentences for part in _divided(sentence, room)]
    sizes = [sum(map(len, part)) for part in parts]
    groups = (
        successive_groups(sizes, room or sum(sizes)) if segment else pairwise(range(len(parts) + 1))
    )
    rows, places = [], list[tuple[int, int, int]]()
    for number, (first, last) in enumerate(groups):
        words = [*chain(*parts[first:last])]
        row = template.row_of_words(words, limit)
        rows.append(row.row)
        lengths = [min(len(word), room or len(word)) for word in words]
        ends = zip(row.first_tokens, lengths, strict=True)
        places += ((number, start, start + length - 1) for start, length in ends)
    of_words = np.repeat(np.arange(len(parts)), [*map(len, parts)])
    return DocumentRows(rows, np.array(places, np.int64).reshape(-1, 3), of_words)


def _divided(words: Pieces, room: int | None) -> list[Pieces]:
    """Parts of a sentence that fit a row; a word that is too long is a part of its own."""
    groups = successive_groups([*map(len, words)], sum(map(len, words)) if room is None else room)
    return [words[first:last] for first, last in groups]
