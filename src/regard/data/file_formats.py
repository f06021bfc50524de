"""Format of a file of data, by its suffix and its first lines; columns of CoNLL files."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.core.errors import BadInput
from regard.data.readers.conll import split_cells
from regard.data.readers.table_format import encoding_of, sample_bytes, sample_text
from regard.data.readers.text_files import suffix_of

FORMATS = {".csv": "csv", ".tsv": "tsv", ".tab": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl"}
FORMATS |= {".parquet": "parquet", ".conllu": "CoNLL-U", ".tmx": "tmx", ".txt": "", ".text": ""}
FORMATS |= dict.fromkeys((".conll", ".iob", ".iob2", ".bio", ".ner"), "CoNLL")
SAMPLE, LONGEST = 400, 1 << 14  # lines at the beginning of a file, and characters of each
MOST_TAGS = 100
FEW_LINES = 10  # of words, of which only tags of entities are evidence enough
MOST_RAGGED = 0.1  # share of the lines of a file that may have more cells or fewer than the others
ZIP = b"PK\x03\x04"  # the first bytes of an archive, and so of .xlsx and .ods
HEAD = 5  # lines in which an XML file names its kind
CONLLU_COLUMNS = 10
COUNTED = re.compile(r"[0-9]+(?:[-.][0-9]+)?")
SQUAD = re.compile(r'\s*\{(?:\s*"version"\s*:\s*[^,]*,)?\s*"data"\s*:\s*\[\s*\{')
TAG = re.compile(r"O|[BIESLU]-\S+")  # of entities


@dataclass(frozen=True)
class WordColumns:
    """Columns of the words and of their tags in a CoNLL file; -1 is the last.

    Words may be ``counted``, as in CoNLL-U, whose columns are the same in every file.
    """

    word: int = 0
    tag: int = -1
    counted: bool = False

    @property
    def options(self) -> dict[str, object]:
        """Options of the reader, without its defaults."""
        if self.counted:
            return {}
        return {
            name: column
            for name, column in (("word", self.word), ("tag", self.tag))
            if column != getattr(WordColumns, name)
        }

    def __str__(self) -> str:
        word, tag = ("the last" if n == -1 else f"column {n}" for n in (self.word, self.tag))
        return f"a word per line in {word}, its tag in {tag} (columns are counted from 0)"


def format_of(path: Path) -> str:
    """The format of a file, by its suffix, else by its first lines."""
    if sample_bytes(path).startswith(ZIP):
        raise BadInput(f"{path}: a spreadsheet or a zip archive; save it as CSV, or unpack it")
    named = FORMATS.get(suffix_of(path), "")
    if named and named != "tsv":
        return named
    filled = [line for line in sample_lines(path) if line.strip()]
    if not filled:
        raise BadInput(f"{path}: empty")
    if words := words_format(path):
        return words
    if any("<tmx" in line for line in filled[:HEAD]):
        return "tmx"
    if is_squad(path):
        return "SQuAD"
    if all(line.lstrip().startswith("{") for line in filled):
        return "jsonl"
    if suffix_of(path) == ".json":
        raise BadInput(f"{path}: not JSON lines; write one object per line, as .jsonl")
    return named or ("tsv" if _usual([line.count("\t") for line in filled]) else "text")


def sample_lines(path: Path | str) -> list[str]:
    """The first lines of a file, in the encoding that they seem to have."""
    sample = sample_bytes(path)
    lines = sample_text(sample, encoding_of(sample)).split("\n")[:SAMPLE]
    return [line[:LONGEST] for line in lines]


def words_format(path: Path | str) -> str:
    """CoNLL, CoNLL-U, or "" if the first lines of a file are not words in columns."""
    return word_lines_format(sample_lines(path))


def word_lines_format(lines: Sequence[str]) -> str:
    """CoNLL, CoNLL-U, or "" if lines are not words in columns.

    Lines have as many cells each (but one in ten, whose error is to be reported), one column has
    few tags, and there are empty lines between sentences. Less than ``FEW_LINES`` may be prose by
    chance: their tags must be tags of entities.
    """
    rows = _word_rows(lines)
    width = _usual([len(row) for row in rows])
    if width < 2:
        return ""
    even = [row for row in rows if len(row) == width]
    if width == CONLLU_COLUMNS and all(COUNTED.fullmatch(row[0]) for row in even):
        return "CoNLL-U"
    columns = word_columns(even)
    words, tags = ([row[column] for row in even] for column in (columns.word, columns.tag))
    tagged = all(map(TAG.fullmatch, tags))
    few = tagged if len(even) < FEW_LINES else len({*tags}) <= min(MOST_TAGS, len(even) // 2)
    single = sum(" " in word for word in words) <= len(words) * MOST_RAGGED
    has_boundaries = any(not line.strip() for line in lines[:-1]) or "O" in tags
    entities = columns.tag != 0 or tagged
    return "CoNLL" if few and single and has_boundaries and entities else ""


def columns_in(path: Path | str) -> WordColumns:
    """Columns of words and tags of a CoNLL file."""
    rows = _word_rows(sample_lines(path))
    width = _usual([len(row) for row in rows])
    return word_columns([row for row in rows if len(row) == width])


COLUMNS_IN: dict[str, Callable[[Path | str], WordColumns]] = {
    "CoNLL": columns_in,
    "CoNLL-U": lambda path: WordColumns(1, 3, counted=True),
}
"""Columns of words and tags in a file, by its format."""


def word_columns(rows: Sequence[Sequence[str]]) -> WordColumns:
    """Columns of words and tags: tags come last, unless only the first column looks like tags.

    A first column that counts the words of sentences is followed by the words.
    """
    if not rows or len(rows[0]) < 2:
        return WordColumns()
    width = len(rows[0])
    first, last = ([row[column] for row in rows] for column in (0, -1))
    if all(map(TAG.fullmatch, last)):
        return WordColumns(int(width > 2 and _counts_words(first)))
    if width > 2 and _counts_words(first):
        return WordColumns(1)
    fewer = 1 < len({*first}) <= len({*last}) // 4
    is_first = fewer or all(map(TAG.fullmatch, first))
    return WordColumns(width - 1, 0) if is_first else WordColumns()


def is_squad(path: Path | str) -> bool:
    """Whether a file begins as SQuAD does: an object with articles, paragraphs or questions."""
    return SQUAD.match(" ".join(sample_lines(path))) is not None


def _word_rows(lines: Sequence[str]) -> list[list[str]]:
    """Cells of lines of words, without comments and document boundaries."""
    rows = [split_cells(line.strip("\r ")) for line in lines if line.strip()]
    rows = [row for row in rows if row and row[0] not in ("-DOCSTART-", "#")]
    return [row for row in rows if not row[0].startswith("# ")]


def _counts_words(cells: Sequence[str]) -> bool:
    return all(map(str.isdigit, cells)) and cells[0] in ("0", "1")


def _usual(counts: Sequence[int]) -> int:
    """The number that nearly all counts are, or 0."""
    if not counts:
        return 0
    ((usual, times),) = Counter(counts).most_common(1)
    return usual if times >= len(counts) * (1 - MOST_RAGGED) else 0
