"""Documents for pre-training: sentences as ids, tokenised once, with document boundaries.

On disk, NAME.tokens has one row of ids per document, NAME.sentences the lengths of its sentences.
"""

import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from regard.data import shards
from regard.data.sentences import sentences
from regard.data.shards import PARTS, Encode, Ids, TokenShard, with_suffix, write_staged
from regard.data.sources import (
    STDIN,
    DropCounts,
    FileSource,
    JsonLines,
    name_of,
    read_lines,
    read_texts,
)
from regard.ground.errors import BadInput
from regard.ground.files import read_json, write_json

FORMAT = "regard documents 1"  # changes when the rules of sentence splitting change
SIDES = ("tokens", "sentences")
LONGEST = 1 << 32  # upper limit of a sentence's length


@dataclass(frozen=True)
class TextFolder(FileSource):
    """Files .txt, .txt.gz and .txt.xz below a folder, one document each, sorted by name.

    Paragraphs are separated by empty lines.
    """

    path: str

    @property
    def name(self) -> str:
        return self.path

    @property
    def paths(self) -> tuple[str, ...]:
        found = [one for end in ("", ".gz", ".xz") for one in Path(self.path).rglob(f"*.txt{end}")]
        if not found:
            raise BadInput(f"{self.path}: no folder with files .txt, .txt.gz or .txt.xz")
        return tuple(map(str, sorted(found)))

    def documents(self, dropped: DropCounts | None) -> Iterator[tuple[str, list[str]]]:
        """(where, sentences) of every document."""
        for path in self.paths:
            yield path, [one for text in _paragraphs(path) for one in sentences(text)]


@dataclass(frozen=True)
class SentenceFile(FileSource):
    """One sentence on each line, an empty line after each document."""

    path: str

    @property
    def paths(self) -> tuple[str, ...]:
        return (self.path,)

    def documents(self, dropped: DropCounts | None) -> Iterator[tuple[str, list[str]]]:
        """(where, sentences) of every document."""
        return _blocks(self.path)


class JsonDocuments(JsonLines):
    """A document on each line of JSON, a paragraph on each line of its text."""

    def documents(self, dropped: DropCounts | None) -> Iterator[tuple[str, list[str]]]:
        """(where, sentences) of every document."""
        for where, text in read_texts(self, dropped=dropped):
            yield where, [one for line in text.split("\n") for one in sentences(line)]


DocumentSource = TextFolder | SentenceFile | JsonDocuments


def document_source(path: str, key: str | None = None) -> DocumentSource:
    """The kind of documents at a path: a folder, JSON lines, or one sentence per line.

    ``key`` is that of the text in a JSON line.
    """
    is_folder = Path(path).is_dir()
    json_lines = {".jsonl", ".ndjson"} & {suffix.lower() for suffix in Path(path).suffixes}
    if json_lines and not is_folder:
        return JsonDocuments(path, (key or "text",))
    if key is not None:
        raise BadInput(f"{path}: a key is for JSON lines")
    return TextFolder(path) if is_folder else SentenceFile(path)


def read_documents(
    collection: DocumentSource, dropped: DropCounts | None = None
) -> Iterator[tuple[str, list[str]]]:
    """(where, sentences) of every document, empty ones included."""
    return collection.documents(dropped)


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
        """From documents that are lists of sentences of ids."""
        stored = [[np.asarray(sentence, np.int64) for sentence in one] for one in documents]
        lengths = [np.array([*map(len, one)], np.int64) for one in stored]
        return cls([np.concatenate(one) for one in stored], lengths)

    def __len__(self) -> int:
        return len(self.rows)

    def chosen(self, numbers: Iterable[int]) -> "Documents":
        """A subset of the documents."""
        rows, lengths = zip(*((self.rows[n], self.sentences[n]) for n in numbers), strict=True)
        return Documents(rows, lengths, self.name, self.checksum)

    @cached_property
    def first_sentence(self) -> np.ndarray:
        """The first sentence of every document, and the total at the end."""
        return _from_zero(np.array([len(one) for one in self.sentences], np.int64))

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
    dropped: DropCounts | None = None,
) -> Documents:
    """The documents as ids below `vocab`; those stored in `folder` are used if they are current.

    They are current if the files and the tokenizer's `fingerprint` are unchanged. Documents without
    a sentence are left out and counted in `dropped`; with it, so are bad lines of JSON.
    """
    path = Path(folder) / name
    record, sides = with_suffix(path, ".json"), [path.with_name(f"{name}.{s}") for s in SIDES]
    origin = _origin(collection, vocab, fingerprint, dropped)
    if STDIN in collection.paths or not _has(record, sides, origin):
        counted = DropCounts()
        lengths: list[list[np.ndarray]] = []
        texts = read_documents(collection, None if dropped is None else counted)
        chunks = _encoded(texts, encode, lengths, counted, collection.name)
        write_staged(sides[:1], vocab, ([rows] for rows in chunks), record)
        write_staged(sides[1:], LONGEST, ([rows] for rows in lengths))
        write_json(record, {"origin": origin, "dropped": counted})
    if dropped is not None:
        dropped.update(read_json(record).get("dropped", {}))
    rows, lengths_of_rows = map(TokenShard, sides)
    checksum = zlib.crc32(repr([rows.checksum, lengths_of_rows.checksum]).encode())
    documents = Documents(rows, lengths_of_rows, collection.name, checksum)
    if not np.array_equal(documents.borders, _from_zero(rows.lengths)):
        raise BadInput(f"{path}: sentences and tokens do not match; delete both")
    return documents


def _origin(
    collection: DocumentSource, vocab: int, fingerprint: str, dropped: DropCounts | None
) -> dict[str, Any]:
    """Everything that determines the stored rows, after a round trip through JSON."""
    origin = {
        "format": FORMAT,
        **collection.origin,
        "vocab": vocab,
        "fingerprint": fingerprint,
        "skip_bad": dropped is not None,
    }
    return json.loads(json.dumps(origin))


def _has(record: Path, sides: list[Path], origin: dict[str, Any]) -> bool:
    """Whether current rows are stored; damaged ones are an error."""
    files = [record, *(with_suffix(side, part) for side in sides for part in (*PARTS, ".json"))]
    if not all(file.exists() for file in files) or read_json(record).get("origin") != origin:
        return False
    for side in sides:
        TokenShard(side).verify()
    return True


def _encoded(
    documents: Iterable[tuple[str, list[str]]],
    encode: Encode,
    lengths: list[list[np.ndarray]],
    dropped: DropCounts,
    name: str,
) -> Iterator[list[np.ndarray]]:
    """Chunks of rows of ids; the lengths of their sentences are appended to `lengths`."""
    for chunk in _many(texts for _, texts in documents):
        coded = iter(_checked(encode, [text for texts in chunk for text in texts]))
        rows, lengths_of_rows = [], []
        for texts in chunk:
            ids = [one for one in (np.asarray(next(coded), np.int64) for _ in texts) if len(one)]
            if ids:
                rows.append(np.concatenate(ids))
                lengths_of_rows.append(np.array([*map(len, ids)], np.int64))
            else:
                dropped["empty"] += 1
        lengths.append(lengths_of_rows)
        yield rows
    if not any(lengths):
        raise BadInput(f"{name}: no usable text (left out: {dropped})")


def _checked(encode: Encode, texts: list[str]) -> Sequence[Ids]:
    coded = encode(texts)
    if len(coded) != len(texts):
        raise ValueError("the encoder gave fewer or more rows than it was given texts")
    return coded


def _many(documents: Iterable[list[str]]) -> Iterator[list[list[str]]]:
    """Groups of documents with about a chunk of sentences each."""
    chunk: list[list[str]] = []
    count = 0
    for texts in documents:
        chunk.append(texts)
        count += len(texts) + 1
        if count >= shards.CHUNK:
            yield chunk
            chunk, count = [], 0
    if chunk:
        yield chunk


def _paragraphs(path: str) -> Iterator[str]:
    """Paragraphs: lines joined up to an empty line."""
    for _, lines in _blocks(path):
        yield " ".join(lines)


def _blocks(path: str) -> Iterator[tuple[str, list[str]]]:
    """(where, lines) of every block between empty lines."""
    lines: list[str] = []
    first = 1
    for number, line in enumerate(read_lines(path), start=1):
        if line := line.strip():
            first = first if lines else number
            lines.append(line)
        elif lines:
            yield f"{name_of(path)}:{first}", lines
            lines = []
    if lines:
        yield f"{name_of(path)}:{first}", lines


def _from_zero(lengths: np.ndarray) -> np.ndarray:
    return np.append(0, np.cumsum(lengths))
