"""Documents for pre-training: sentences as ids, tokenised once, with document boundaries.

On disk, NAME.tokens has one row of ids per document, NAME.sentences the lengths of its sentences.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, groupby, islice
from pathlib import Path

import numpy as np

from regard.data import shards
from regard.data.files.arrivals import Arrivals
from regard.data.files.fields import DropCounts, Dropped, parsed, typed
from regard.data.files.sources import FileSource, JsonLines, OneFile, read_objects, read_texts
from regard.data.files.text_files import read_lines, text_blocks, whole_text
from regard.data.pretraining import text_parts
from regard.data.pretraining.sentences import sentences
from regard.data.pretraining.text_parts import DocumentPart, DocumentReader
from regard.data.shards import Chunk, Encode, Ids, TokenShard, encode_chunk, store_rows
from regard.ground.errors import BadInput
from regard.text.templates import FIELD_MARK

FORMAT = "regard documents 1"  # changes when the rules of sentence splitting change
WHOLE_FORMAT = "regard texts 2"  # of documents that are not split
CHARACTERS = 200  # as many count like a sentence, where documents are encoded together
LONGEST = 1 << 32  # upper limit of a sentence's length
LONGEST_LINE = 1 << 30  # bytes of a line whose sentences are split


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
        cut = text_parts.text_parts(text_blocks(self.path), at_lines=at_lines)
        batches = text_parts.batched_by_size(self._sentences(), len, text_parts.SIZE)
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


@dataclass(frozen=True, eq=False)
class Documents:
    """Documents as rows of ids, and the lengths of the sentences in each.

    Tokens and sentences are numbered through all documents.
    """

    rows: Sequence[np.ndarray] | TokenShard
    sentences: Sequence[np.ndarray] | TokenShard
    name: str = "documents"
    checksum: int = 0  # of the files these come from

    @classmethod
    def of(cls, documents: Iterable[Sequence[Ids]]) -> "Documents":
        """Documents in memory, from lists of sentences of ids."""
        stored = [[np.asarray(sentence, np.int64) for sentence in each] for each in documents]
        lengths = [np.array([*map(len, each)], np.int64) for each in stored]
        return cls([np.concatenate(each) for each in stored], lengths)

    def __len__(self) -> int:
        return len(self.rows)

    def chosen(self, numbers: Iterable[int], name: str | None = None) -> "Documents":
        """Subset of the documents; ``name`` is its name in messages."""
        rows, lengths = zip(*((self.rows[n], self.sentences[n]) for n in numbers), strict=True)
        return Documents(rows, lengths, name or self.name, self.checksum)

    @cached_property
    def first_sentence(self) -> np.ndarray:
        """The first sentence of every document, and the total at the end."""
        return _from_zero(np.array([*map(len, self.sentences)], np.int64))

    @cached_property
    def first_token(self) -> np.ndarray:
        """The first token of every sentence, and the total at the end."""
        lengths = np.concatenate([np.empty(0, np.int64), *self.sentences])
        return _from_zero(lengths.astype(np.int64))

    @cached_property
    def borders(self) -> np.ndarray:
        """The first token of every document, and the total at the end."""
        return self.first_token[self.first_sentence]


def tokenize_documents(
    folder: str | Path,
    name: str,
    collection: DocumentSource,
    encode: Encode,
    *,
    vocab: int,
    fingerprint: str,
    dropped: Dropped = None,
    whole: bool = False,
) -> Documents:
    """Tokenise documents into ids below `vocab`; stored ids in `folder` are used if current.

    Texts are encoded by sentence, or as a `whole`, with the spaces and lines between sentences.

    Stored ids are current if the files and the tokenizer's `fingerprint` are unchanged. Documents
    without a sentence are left out and counted in `dropped`; with it, so are bad lines of JSON.
    """
    path = Path(folder) / name

    def encoded(counted: DropCounts) -> Iterator[Chunk]:
        skipped = None if dropped is None else counted
        at_lines = whole and text_parts.cuts_at_lines(encode)
        rows = _OpenRows(whole)
        parts = collection.parts(skipped, whole=whole, at_lines=at_lines)
        for chunk in text_parts.batched_by_size(parts, _size_in_sentences, shards.CHUNK):
            coded = iter(encode_chunk(encode, [text for part in chunk for text in part.texts]))
            for part in chunk:
                rows.add([ids for ids in islice(coded, len(part.texts)) if len(ids)])
                if part.is_last and not rows.close():
                    counted["empty"] += 1
            if (written := rows.take()) is not None:
                yield written

    format = WHOLE_FORMAT if whole else FORMAT
    settings = {"format": format, "vocab": vocab, "fingerprint": fingerprint}
    sides = {"tokens": vocab, "sentences": LONGEST}
    stored = store_rows(path, collection, sides, settings, encoded, dropped)
    documents = Documents(stored.source, stored.target, collection.name, stored.checksum)
    if not np.array_equal(documents.borders, _from_zero(stored.source.lengths)):
        raise BadInput(f"{path}: sentences and tokens do not match; delete both")
    return documents


class _OpenRows:
    """Rows of documents, the last of which may be incomplete: tokens, and lengths of sentences.

    A ``whole`` text is one sentence, whose length is known at its end.
    """

    def __init__(self, whole: bool):
        self.whole, self.length = whole, 0  # of the document that is open
        self.tokens: list[list[Ids]] = [[]]
        self.lengths: list[list[int]] = [[]]

    def add(self, sentences: list[Ids]) -> None:
        """Add sentences of the last document, or a part of its text."""
        lengths = [*map(len, sentences)]
        self.length += sum(lengths)
        self.tokens[-1] += sentences
        self.lengths[-1] += [] if self.whole else lengths

    def close(self) -> bool:
        """End the last document; returns False, and drops it, if it has no tokens."""
        if not self.length:
            return False
        self.lengths[-1] += [self.length] if self.whole else []
        self.tokens.append([])
        self.lengths.append([])
        self.length = 0
        return True

    def take(self) -> Chunk | None:
        """The rows since the last call; None if there are none."""
        rows = [np.concatenate([_NONE, *ids], dtype=np.int64) for ids in self.tokens]
        lengths, is_open = self.lengths, self.length > 0
        self.tokens, self.lengths = [[]], [[]]
        if not is_open:
            rows, lengths = rows[:-1], lengths[:-1]
        return Chunk((rows, lengths), is_open) if rows else None


_NONE = np.empty(0, np.int64)


def _size_in_sentences(part: DocumentPart) -> int:
    return 1 + sum(1 + len(text) // CHARACTERS for text in part.texts)


def _blocks(path: str) -> Iterator[list[str]]:
    """The lines of every block between empty lines."""
    lines = (line.strip() for line in read_lines(path))
    return (list(block) for filled, block in groupby(lines, key=bool) if filled)


def _from_zero(lengths: np.ndarray) -> np.ndarray:
    return np.append(0, np.cumsum(lengths))
