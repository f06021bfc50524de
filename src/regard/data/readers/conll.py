"""Readers of words and tags in columns: one word per line, a blank line after each sentence.

They read the CoNLL tasks (Tjong Kim Sang and De Meulder, 2003) and Universal Dependencies.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from regard.data.readers.examples import TaggedExample
from regard.data.readers.fields import BadExample, Dropped, parsed
from regard.data.readers.text_files import numbered_lines

Numbered = list[tuple[str, str]]  # where, line
Rows = list[tuple[str, list[str]]]  # where, cells

_COUNTED = re.compile(r"[0-9]+")
_BETWEEN = re.compile(r"[0-9]+([-.])[0-9]+")


def conll(
    path: Path, dropped: Dropped = None, word: int = 0, tag: int = -1
) -> Iterator[TaggedExample]:
    """Read sentences in columns separated by tabs or spaces; `tag` -1 is the last column.

    Tags are not converted. Lines of -DOCSTART- are left out.
    """

    def parse(where: str, lines: Numbered) -> TaggedExample:
        return _tagged(where, even_rows(lines), word, tag)

    return parsed(column_sentences(path), parse, dropped)


def conllu(path: Path, dropped: Dropped = None, tag: int = 3) -> Iterator[TaggedExample]:
    """Read sentences of Universal Dependencies; `tag` is the column, by default universal POS.

    Comments, multiword tokens (1-2) and empty nodes (1.1) are left out.
    """

    def parse(where: str, lines: Numbered) -> TaggedExample:
        return _tagged(where, counted_words(where, lines), 1, tag)

    return parsed(column_sentences(path), parse, dropped)


class TreebankSentence(NamedTuple):
    """Words of a sentence of a treebank, the index of the head of each, and its relation.

    The head of the root is -1.
    """

    where: str
    words: tuple[str, ...]
    heads: tuple[int, ...]
    relations: tuple[str, ...]


def read_treebank(path: Path, dropped: Dropped = None) -> Iterator[TreebankSentence]:
    """Read sentences of Universal Dependencies with their basic dependencies, as ``conllu``."""

    def parse(where: str, lines: Numbered) -> TreebankSentence:
        rows = counted_words(where, lines)
        for number, (place, cells) in enumerate(rows, start=1):
            if cells[0] != str(number):
                raise BadExample(place, "not CoNLL-U", f"word {number} has the number {cells[0]}")
            if not _COUNTED.fullmatch(cells[6]) or int(cells[6]) > len(rows):
                detail = f"{cells[6]!r} is not the number of a head"
                raise BadExample(place, "without a head", detail)
            if not cells[1] or cells[7] in ("", "_"):
                raise BadExample(place, "empty", "a word or a relation is empty")
        words, heads, relations = zip(*((row[1], row[6], row[7]) for _, row in rows), strict=True)
        return TreebankSentence(where, words, tuple(int(head) - 1 for head in heads), relations)

    return parsed(column_sentences(path), parse, dropped)


def even_rows(lines: Numbered) -> Rows:
    """Place and cells of the lines of a sentence, which must have equally many columns."""
    rows = [(where, split_cells(line)) for where, line in lines]
    width = len(rows[0][1]) if rows else 0
    for place, cells in rows:
        if len(cells) != width:
            detail = f"{len(cells)} columns where the sentence began with {width}"
            raise BadExample(place, "of uneven columns", detail)
    return rows


def counted_words(where: str, lines: Numbered, width: int = 10) -> Rows:
    """Place and cells of the words of a sentence, without multiword tokens and empty nodes."""
    rows = [(where, line.split("\t")) for where, line in lines if line[0] != "#"]
    for place, cells in rows:
        if len(cells) != width:
            raise BadExample(place, "of uneven columns", f"{len(cells)} columns instead of {width}")
        if not (_COUNTED.fullmatch(cells[0]) or _BETWEEN.fullmatch(cells[0])):
            raise BadExample(place, "not CoNLL-U", f"{cells[0]!r} is not the number of a word")
    counted = [(place, cells) for place, cells in rows if _COUNTED.fullmatch(cells[0])]
    if not counted:
        raise BadExample(where, "empty", "a sentence without words")
    return counted


def column_sentences(path: Path) -> Iterator[tuple[str, Numbered]]:
    """Yield (where it begins, its lines) of every sentence."""
    begun: Numbered = []
    for where, line in numbered_lines(path):
        if not is_boundary(line):
            begun.append((where, line))
        elif begun:
            yield begun[0][0], begun
            begun = []
    if begun:
        yield begun[0][0], begun


def is_boundary(line: str) -> bool:
    """Whether a line is between sentences: empty, or the beginning of a document."""
    return not line or line.isspace() or split_cells(line)[0] == "-DOCSTART-"


def is_word_line(line: str, counted: bool) -> bool:
    """Whether a line has a word, which a tag belongs to; words may be ``counted`` (CoNLL-U)."""
    if is_boundary(line):
        return False
    return not counted or _COUNTED.fullmatch(line.partition("\t")[0]) is not None


def split_cells(line: str) -> list[str]:
    """Cells of a line, separated by tabs or spaces; words may contain other Unicode spaces."""
    if "\t" in line:
        return line.rstrip(" \t").split("\t")
    return [cell for cell in line.split(" ") if cell]


def _tagged(where: str, rows: Rows, word: int, tag: int) -> TaggedExample:
    width = len(rows[0][1])
    for column in (word, tag):
        if not -width <= column < width or width < 2:
            detail = f"no column {column}, counted from 0: the line has {width}"
            raise BadExample(rows[0][0], "without a column", detail)
    for place, cells in rows:
        if not cells[word] or not cells[tag]:
            raise BadExample(place, "empty", "a word or a tag is empty")
    return TaggedExample(
        where, tuple(cells[word] for _, cells in rows), tuple(cells[tag] for _, cells in rows)
    )
