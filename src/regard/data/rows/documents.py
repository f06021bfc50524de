"""Documents for pre-training: sentences as ids, tokenised once, with document boundaries.

On disk, NAME.tokens has one row of ids per document, NAME.sentences the lengths of its sentences.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path

import numpy as np

from regard.core.errors import BadInput
from regard.core.workers import StartWorkers
from regard.data.batches import shards
from regard.data.batches.shards import (
    Chunk,
    Encode,
    Ids,
    TokenShard,
    encode_chunks,
    shard_path,
    store_rows,
)
from regard.data.readers.document_files import (
    DocumentPart,
    DocumentSource,
    batched_by_size,
    cuts_at_lines,
)
from regard.data.readers.fields import DropCounts, Dropped
from regard.data.readers.memory import MemoryExamples

FORMAT = "regard documents 1"  # changes when the rules of sentence splitting change
WHOLE_FORMAT = "regard texts 2"  # of documents that are not split
CHARACTERS = 200  # as many count like a sentence, where documents are encoded together
LONGEST = 1 << 32  # upper limit of a sentence's length


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
    collection: DocumentSource | MemoryExamples,
    encode: Encode,
    *,
    vocab: int,
    fingerprint: str,
    dropped: Dropped = None,
    whole: bool = False,
    start_workers: StartWorkers | None = None,
    read_only: bool = False,
    deduplicate: bool = False,
) -> Documents:
    """Tokenise documents into ids below `vocab`; stored ids in `folder` are used if current.

    Texts are encoded by sentence, or as a `whole`, with the spaces and lines between sentences.

    Stored ids are current if the files and the tokenizer's `fingerprint` are unchanged. Documents
    without a sentence are left out and counted in `dropped`; with it, so are bad lines of JSON.
    With `deduplicate`, documents whose tokens occur before are left out, too.
    """
    path = shard_path(Path(folder), name)

    def encoded(counted: DropCounts) -> Iterator[Chunk]:
        skipped = None if dropped is None else counted
        at_lines = whole and cuts_at_lines(encode)
        rows = _OpenRows(whole)
        parts = collection.parts(skipped, whole=whole, at_lines=at_lines)
        chunks = deque[list[DocumentPart]]()  # that are being encoded

        def texts() -> Iterator[list[list[str]]]:
            for chunk in batched_by_size(parts, _size_in_sentences, shards.CHUNK):
                chunks.append(chunk)
                yield [[text for part in chunk for text in part.texts]]

        for (row_ids,) in encode_chunks([encode], texts(), start_workers):
            coded = iter(row_ids)
            for part in chunks.popleft():
                rows.add([ids for ids in islice(coded, len(part.texts)) if len(ids)])
                if part.is_last and not rows.close():
                    counted["empty"] += 1
            if (written := rows.take()) is not None:
                yield written

    format = WHOLE_FORMAT if whole else FORMAT
    settings = {"format": format, "vocab": vocab, "fingerprint": fingerprint}
    stored = store_rows(
        path,
        collection,
        {"tokens": vocab, "sentences": LONGEST},
        settings,
        encoded,
        dropped,
        read_only=read_only,
        unique=deduplicate,
    )
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


def _from_zero(lengths: np.ndarray) -> np.ndarray:
    return np.append(0, np.cumsum(lengths))
