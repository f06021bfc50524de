"""Static word vectors, one for each word: text files (GloVe, word2vec) and binary ones (word2vec).

A line of a text file has a word and its vector. Files of word2vec begin with a line of two numbers:
the number of words and the size of vectors. In a binary file, each word then ends with a space, and
its vector follows as little-endian float32.
"""

import codecs
import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

from regard.core.checks import is_number
from regard.core.errors import BadInput
from regard.data.readers.text_files import decoded, opened, raw_lines

HEADER = re.compile(rb"(\d+)[ \t](\d+)[ \t]*\r?\n?")
BINARY = re.compile(rb"[\x00-\x08\x0e-\x1f]")  # bytes that text does not have
SNIFFED = 4_096  # bytes after the header that tell binary files from text
LONGEST = 1_000  # bytes of a word or of a header
WIDEST = 1 << 20  # numbers of a vector
SCORES = 1 << 24  # of words at once, when neighbours are looked for


class Header(NamedTuple):
    """First line of a word2vec file."""

    words: int
    width: int


Entry = tuple[str, str, bytes]  # place in the file, word, and its vector as bytes of float32


@dataclass(frozen=True, eq=False)
class StaticVectors:
    """Words, and a vector for each."""

    words: tuple[str, ...]
    vectors_ND: np.ndarray

    @classmethod
    def read(cls, path: str | Path, most: int | None = None) -> "StaticVectors":
        """Read a file, which may be compressed, or its first ``most`` words.

        Values are appended to one array while reading, so that little more memory is used than for
        the vectors.
        """
        words, numbers = dict[str, None](), bytearray()
        for where, word, vector in islice(_entries(path), most):
            if word in words:
                raise BadInput(f"{where}: the word {word!r} occurs twice")
            words[word] = None
            numbers += vector
        if not words:
            raise BadInput(f"{path}: has no vectors")
        vectors_ND = np.frombuffer(numbers, np.float32).reshape(len(words), -1)
        if not (finite_N := np.isfinite(vectors_ND).all(axis=1)).all():
            word = [*words][int(finite_N.argmin())]
            raise BadInput(f"{path}: the vector of {word!r} has numbers that are not finite")
        return cls(tuple(words), vectors_ND)

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: str) -> bool:
        return self.index_of(word) is not None

    @property
    def width(self) -> int:
        """The number of dimensions."""
        return self.vectors_ND.shape[1]

    @cached_property
    def ids(self) -> dict[str, int]:
        """The index of each word."""
        return {word: number for number, word in enumerate(self.words)}

    def index_of(self, word: str) -> int | None:
        """Index of a word with its case, or else in lower case; None if it has no vector."""
        return self.ids.get(word, self.ids.get(word.lower()))

    def indices_of(self, words: Iterable[str]) -> dict[int, int]:
        """Indices of the vectors of words, by place in the list; words without one are omitted."""
        indices = ((position, self.index_of(word)) for position, word in enumerate(words))
        return {position: index for position, index in indices if index is not None}

    @cached_property
    def lengths_N(self) -> np.ndarray:
        """Norm of each vector; 1 for a vector of zeros, so that its cosine is 0."""
        lengths_N = np.linalg.norm(self.vectors_ND, axis=1)
        return np.where(lengths_N > 0, lengths_N, 1.0)

    def unit(self, numbers: Sequence[int] | np.ndarray) -> np.ndarray:
        """The vectors of these indices, scaled to length 1."""
        return self.vectors_ND[numbers] / self.lengths_N[numbers][..., None]

    def nearest(
        self, queries_BD: np.ndarray, without: Iterable[Iterable[int]], top: int
    ) -> Iterator[list[tuple[int, float]]]:
        """Indices and cosines of the ``top`` words by cosine, best first, for each query.

        ``without`` are the indices of the words to leave out, for each query.
        """
        left_out, top = iter(without), min(top, len(self))
        for some_BD in np.array_split(queries_BD, 1 + len(queries_BD) * len(self) // SCORES):
            lengths_B = np.maximum(np.linalg.norm(some_BD, axis=1), 1e-12)
            for scores_N in some_BD / lengths_B[:, None] @ self.vectors_ND.T:
                scores_N /= self.lengths_N
                scores_N[[*next(left_out)]] = -np.inf
                best = np.argpartition(scores_N, -top)[-top:]
                best = best[np.lexsort((best, -scores_N[best]))]
                yield [(int(n), float(scores_N[n])) for n in best if scores_N[n] > -np.inf]


def _entries(path: str | Path) -> Iterator[Entry]:
    """Entries of a file; its first bytes tell the format."""
    with opened(path) as file:
        first = HEADER.fullmatch(file.readline(LONGEST).removeprefix(codecs.BOM_UTF8))
        binary = BINARY.search(file.read(SNIFFED)) is not None
    if first is None:
        return _text_entries(path, None)
    header = Header(*map(int, first.groups()))
    if not 0 < header.width <= WIDEST:
        raise BadInput(
            f"{path}: the header says {header.width} numbers per vector; expected 1 to {WIDEST:,}"
        )
    return _binary_entries(path, header) if binary else _text_entries(path, header)


def _text_entries(path: str | Path, header: Header | None) -> Iterator[Entry]:
    """Entries of a text file; further columns that are not numbers belong to the word."""
    width, first = (0, 1) if header is None else (header.width, 2)
    number = first - 1
    for number, raw in islice(enumerate(raw_lines(path), start=1), first - 1, None):
        where = f"{path}:{number}"
        columns = decoded(raw, where).rstrip().split(" ")
        width = width or len(columns) - 1
        if not width:
            raise BadInput(
                f"{where}: expected a word and the numbers of its vector, separated by spaces"
            )
        if len(columns) <= width or any(map(is_number, columns[1:-width])):
            raise BadInput(f"{where}: {len(columns) - 1} numbers; expected {width}")
        try:
            vector = array("f", map(float, columns[-width:])).tobytes()
        except ValueError:
            raise BadInput(f"{where}: expected a word and the numbers of its vector") from None
        yield where, " ".join(columns[:-width]), vector
    if header is not None and header.words != (count := number - first + 1):
        raise BadInput(f"{path}: has {count} words, but its first line announces {header.words}")


def _binary_entries(path: str | Path, header: Header) -> Iterator[Entry]:
    """Entries of a binary file; there may be a line feed after each vector."""
    with opened(path) as file:
        file.readline(LONGEST)
        for number in range(1, header.words + 1):
            where = f"{path}: word {number} of {header.words}"
            word = decoded(_binary_word(file, where), where)
            vector = file.read(4 * header.width)
            if len(vector) < 4 * header.width:
                raise BadInput(f"{where}: the file is truncated")
            yield where, word, np.frombuffer(vector, "<f4").astype(np.float32).tobytes()
        if file.read(2).strip():
            raise BadInput(
                f"{path}: has more than the {header.words} words that its first line announces"
            )


def _binary_word(file: BinaryIO, where: str) -> bytes:
    """The bytes up to a space."""
    word = bytearray()
    while (byte := file.read(1)) != b" ":
        if not byte:
            raise BadInput(f"{where}: the file is truncated")
        word += byte
        if len(word) > LONGEST:
            raise BadInput(f"{where}: no word ends within {LONGEST} bytes")
    return bytes(word.lstrip(b"\n"))
