"""Documents to pre-train on: sentences as ids, tokenised once, with the borders of each document.

On disk NAME.tokens has a row of ids for each document, NAME.sentences the lengths of its sentences.
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

FORMAT = "regard documents 1"  # another number when sentences are cut by other rules
SIDES = ("tokens", "sentences")
LONGEST = 1 << 32  # lengths of sentences lie below


@dataclass(frozen=True)
class TextFolder(FileSource):
    """Files .txt, .txt.gz and .txt.xz below a folder, one document each, in order of their names.

    An empty line ends a paragraph, a line's end alone does not.
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


@dataclass(frozen=True)
class JsonDocuments(JsonLines):
    """A document on each line of JSON, a paragraph on each line of its text."""

    def documents(self, dropped: DropCounts | None) -> Iterator[tuple[str, list[str]]]:
        """(where, sentences) of every document."""
        for where, text in read_texts(self, dropped=dropped):
            yield where, [one for line in text.split("\n") for one in sentences(line)]


DocumentSource = TextFolder | SentenceFile | JsonDocuments


def document_source(path: str, key: str | None = None) -> DocumentSource:
    """What a path holds, by its name: a folder, JSON lines, or one sentence on each line.

    The text of a JSON line stands under ``key``, by default "text".
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
    """(where, sentences) of every document, the empty ones too."""
    return collection.documents(dropped)


@dataclass(frozen=True, eq=False)
class Documents:
    """Documents as rows of ids, and the lengths of the sentences in each.

    Tokens and sentences are counted through all documents, as though these lay end to end.
    """

    rows: Sequence[np.ndarray] | TokenShard
    sentences: Sequence[np.ndarray] | TokenShard
    name: str = "documents"
    checksum: int = 0  # of the files these come from

    @classmethod
    def of(cls, documents: Iterable[Sequence[Ids]]) -> "Documents":
        """Documents that are given as sentences of ids."""
        stored = [[np.asarray(sentence, np.int64) for sentence in one] for one in documents]
        lengths = [np.array([*map(len, one)], np.int64) for one in stored]
        return cls([np.concatenate(one) for one in stored], lengths)

    def __len__(self) -> int:
        return len(self.rows)

    def chosen(self, numbers: Iterable[int]) -> "Documents":
        """Some of the documents, as to hold others out."""
        rows, lengths = zip(*((self.rows[n], self.sentences[n]) for n in numbers), strict=True)
        return Documents(rows, lengths, self.name, self.checksum)

    @cached_property
    def first_sentence(self) -> np.ndarray:
        """Of every document, and the number of all at the end."""
        return _from_zero(np.array([len(one) for one in self.sentences], np.int64))

    @cached_property
    def first_token(self) -> np.ndarray:
        """Of every sentence, and the number of all at the end."""
        lengths = np.concatenate([np.empty(0, np.int64), *self.sentences])
        return _from_zero(lengths.astype(np.int64))

    @cached_property
    def borders(self) -> np.ndarray:
        """The first token of every document, and the number of all at the end."""
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
    """The documents as ids below `vocab`, tokenised now unless `folder` has them already.

    It has them if files and the tokenizer's `fingerprint` are the same as then. Documents without
    a sentence are left out, and counted in `dropped`; with it, bad lines of JSON are too.
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
        raise BadInput(f"{path}: sentences and tokens do not agree; delete both to start afresh")
    return documents


def _origin(
    collection: DocumentSource, vocab: int, fingerprint: str, dropped: DropCounts | None
) -> dict[str, Any]:
    """All that decides what is stored, as JSON gives it back."""
    origin = {
        "format": FORMAT,
        **collection.origin,
        "vocab": vocab,
        "fingerprint": fingerprint,
        "skip_bad": dropped is not None,
    }
    return json.loads(json.dumps(origin))


def _has(record: Path, sides: list[Path], origin: dict[str, Any]) -> bool:
    """Is the same stored already? Damage to it is an error."""
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
    """Rows of ids, many documents at a time; the lengths of their sentences go to `lengths`."""
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
    """Documents together until they have a chunk's worth of sentences."""
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
    """The lines between empty ones, put together."""
    for _, lines in _blocks(path):
        yield " ".join(lines)


def _blocks(path: str) -> Iterator[tuple[str, list[str]]]:
    """(where, lines) of what lies between empty lines."""
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
