"""Documents of files, also in parts that have, one after the other, the tokens of the whole text.

A text is cut before a single space between two words, where every family of tokenizers splits:
words are tokenised one by one, and a space belongs to the following word or to none.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from pathlib import Path
from typing import NamedTuple, TypeVar

from regard.core.batch import Ids
from regard.core.errors import BadInput
from regard.data.readers.fields import Dropped, parsed, typed
from regard.data.readers.sentences import sentences
from regard.data.readers.sources import FileSource, OneFile, read_texts
from regard.data.readers.table_files import JsonLines, read_objects
from regard.data.readers.text_files import Arrivals, read_lines, text_blocks, whole_text
from regard.text.templates import FIELD_MARK

SIZE = 1 << 16  # characters of a part, about
LONGEST_LINE = 1 << 30  # bytes of a line whose sentences are split
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
            cut = _cut_after(rest, max(SIZE, searched), patterns)
            if cut is None:
                searched = len(rest) - 2  # a place may need two characters before it
                break
            yield rest[:cut]
            rest, searched = rest[cut:], 0
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


def _cut_after(text: str, start: int, patterns: Iterable[re.Pattern[str]]) -> int | None:
    """First place to cut from ``start`` on, by the first of the patterns that matches."""
    matches = (pattern.search(text, start) for pattern in patterns)
    return next((match.start() for match in matches if match is not None), None)


def cuts_at_lines(encode: Encode) -> bool:
    """Whether a line has the same tokens alone as after another line.

    Not so with ``add_prefix_space``: every text begins with a space, but not every line in it.
    """
    both, first, second = map(list, encode(["a\nb", "a\n", "b"]))
    return both == first + second


@dataclass(frozen=True)
class TextFolder(FileSource, DocumentReader):
    """Folder of files .txt, .txt.gz and .txt.xz, one document each, sorted by name.

    Paragraphs are separated by empty lines.
    """

    path: str

    @property
    def name(self) -> str:
        return self.path

    @property
    def paths(self) -> tuple[str, ...]:
        patterns = (f"*.txt{end}" for end in ("", ".gz", ".xz"))
        files = [file for pattern in patterns for file in Path(self.path).rglob(pattern)]
        if not files:
            raise BadInput(f"{self.path}: has no files .txt, .txt.gz or .txt.xz")
        return tuple(map(str, sorted(files)))

    def documents(self, dropped: Dropped) -> Iterator[list[str]]:
        paragraphs = (map(" ".join, _blocks(path)) for path in self.paths)
        return ([*chain.from_iterable(map(sentences, texts))] for texts in paragraphs)

    def texts(self, dropped: Dropped) -> Iterator[str]:
        return map(whole_text, self.paths)


@dataclass(frozen=True)
class SentenceFile(OneFile, DocumentReader):
    """File with one sentence per line and an empty line after each document."""

    def documents(self, dropped: Dropped) -> Iterator[list[str]]:
        return _blocks(self.path)

    def texts(self, dropped: Dropped) -> Iterator[str]:
        return map("\n".join, _blocks(self.path))


@dataclass(frozen=True)
class TextFile(SentenceFile):
    """File of one running text; empty lines are part of it."""

    def documents(self, dropped: Dropped) -> Iterator[list[str]]:
        yield [*self._sentences()]

    def texts(self, dropped: Dropped) -> Iterator[str]:
        yield whole_text(self.path)

    def parts(
        self, dropped: Dropped, *, whole: bool, at_lines: bool = True
    ) -> Iterator[DocumentPart]:
        cut = text_parts(text_blocks(self.path), at_lines=at_lines)
        batches = batched_by_size(self._sentences(), len, SIZE)
        texts = ([part] for part in cut) if whole else batches
        previous: list[str] = []
        for part in texts:
            if previous:
                yield DocumentPart(previous, is_last=False)
            previous = part
        yield DocumentPart(previous)

    def _sentences(self) -> Iterator[str]:
        lines = (line.strip() for line in read_lines(self.path, Arrivals(LONGEST_LINE)))
        return (sentence for line in lines for sentence in sentences(line))


class JsonDocuments(JsonLines, DocumentReader):
    """JSON lines: a document per line, with a paragraph on each line of its text."""

    def documents(self, dropped: Dropped) -> Iterator[list[str]]:
        for text in self.texts(dropped):
            yield [sentence for line in text.split("\n") for sentence in sentences(line)]

    def texts(self, dropped: Dropped) -> Iterator[str]:
        return (text for _, text in read_texts(self, dropped=dropped))


class JsonFields(JsonDocuments):
    """JSON lines: a record per line. The text of a field is its name, ``FIELD_MARK`` and its value.

    Fields that are missing or null are left out; the texts of a list are joined by commas.
    """

    def documents(self, dropped: Dropped) -> Iterator[list[str]]:
        return parsed(read_objects(Path(self.path), dropped), self._fields, dropped)

    def _fields(self, where: str, record: Mapping[str, object]) -> list[str]:
        texts = {str(name): field_text(record, str(name), where) for name in self.columns}
        return [f"{name}{FIELD_MARK}{text}" for name, text in texts.items() if text]


def field_text(record: Mapping[str, object], name: str, where: str) -> str:
    """The text of a field of a record, a text or a list of texts; empty if there is none."""
    value = record.get(name)
    texts = value if isinstance(value, list) else [] if value is None else [value]
    return ", ".join(typed(text, str, f"the field {name!r}", where) for text in texts).strip()


DocumentSource = TextFolder | SentenceFile | JsonDocuments


def document_source(
    path: str, key: str | None = None, fields: tuple[str, ...] = ()
) -> DocumentSource:
    """The source of documents at a path: a folder, JSON lines, or one sentence per line.

    ``key`` is the key of the text in a JSON line; ``fields`` are the keys of a record.
    """
    is_folder = Path(path).is_dir()
    json_lines = {".jsonl", ".ndjson"} & {suffix.lower() for suffix in Path(path).suffixes}
    if fields and (is_folder or not json_lines or key is not None):
        raise BadInput(f"{path}: fields can only be read from JSON lines (.jsonl), without a key")
    if fields:
        return JsonFields(path, fields)
    if json_lines and not is_folder:
        return JsonDocuments(path, (key or "text",))
    if key is not None:
        raise BadInput(f"{path}: key can only be used with JSON lines")
    return TextFolder(path) if is_folder else SentenceFile(path)


def _blocks(path: str) -> Iterator[list[str]]:
    """The lines of every block between empty lines."""
    lines = (line.strip() for line in read_lines(path))
    return (list(block) for filled, block in groupby(lines, key=bool) if filled)
