"""Tokenised text in memory-mapped files, which are reused while they are current.

Rows lie end to end in NAME.bin; NAME.idx holds their offsets, NAME.json sizes and checksums.

Rows that occur before may be left out: they are found by 128-bit hashes, which are sorted in parts.
Memory is a bit for each example and the hashes of one part; all hashes, 24 bytes for each example,
are in temporary files.
"""

import hashlib
import json
import os
import tempfile
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeVar
from urllib.parse import quote

import numpy as np

from regard.core.errors import BadInput
from regard.core.files import (
    checksum_of_file,
    read_json,
    reading,
    sweep,
    temporary_name,
    write_json,
    writing,
)
from regard.core.workers import StartWorkers
from regard.data.batches.packing import successive_groups
from regard.data.counter_rng import ONES_IN_BYTE
from regard.data.readers.fields import DropCounts, Dropped
from regard.data.readers.sources import Source
from regard.data.readers.text_files import STDIN

Ids = Sequence[int] | np.ndarray
Encode = Callable[[list[str]], Sequence[Ids]]
Item = TypeVar("Item")

FORMAT = "regard rows 1"
DTYPES = ("|u1", "<u2", "<u4")  # the smallest that fits the vocabulary
OFFSET = "<i8"
PARTS = (".bin", ".idx")
META = ("rows", "elements", "vocab", "dtype", "checksums")
CHUNK = 10_000  # rows written at once
BLOCK = 1 << 22  # ids that are read at once


class Chunk(NamedTuple):
    """Rows of every side; if ``is_open``, the last row of each continues in the next chunk."""

    sides: Sequence[Sequence[Ids]]
    is_open: bool = False


class PackedRows(NamedTuple):
    """Rows end to end in an array: lists of numbers take several times its memory."""

    ids: np.ndarray
    lengths: np.ndarray

    @classmethod
    def of(cls, rows: Sequence[Ids]) -> "PackedRows":
        """Pack rows: arrays, or sequences of numbers."""
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        if rows and all(isinstance(row, np.ndarray) for row in rows):
            return cls(np.concatenate(rows, dtype=np.int64), lengths)
        return cls(np.fromiter(chain.from_iterable(rows), np.int64, lengths.sum()), lengths)

    @property
    def rows(self) -> list[np.ndarray]:
        """A view of each row."""
        return np.split(self.ids, np.cumsum(self.lengths))[:-1]


class TokenShard:
    """Rows of ids on disk; opening reads only the index, `shard[i]` is row i, read-only."""

    def __init__(self, path: str | Path):
        self.path = Path(path)
        meta: dict[str, Any] = read_json(with_suffix(self.path, ".json"))
        try:
            if meta["format"] != FORMAT or meta["dtype"] not in DTYPES:
                raise KeyError("format")
            self.vocab: int = meta["vocab"]
            self._checksums = {part: meta["checksums"][part] for part in PARTS}
            self._offsets = _mapped(with_suffix(self.path, ".idx"), OFFSET, meta["rows"] + 1)
            self._data = _mapped(with_suffix(self.path, ".bin"), meta["dtype"], meta["elements"])
        except (KeyError, TypeError):
            raise _damaged(with_suffix(self.path, ".json")) from None
        self._check(".idx")

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, i: int) -> np.ndarray:
        if not 0 <= i < len(self):
            raise IndexError(i)
        return self._data[self._offsets[i] : self._offsets[i + 1]]

    def __iter__(self) -> Iterator[np.ndarray]:
        return (self[i] for i in range(len(self)))

    @property
    def dtype(self) -> np.dtype:
        """The type of the ids on disk."""
        return self._data.dtype

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self._offsets)

    def lengths_of(self, rows: np.ndarray) -> np.ndarray:
        """The lengths of some rows."""
        return self._offsets[rows + 1] - self._offsets[rows]

    @property
    def checksum(self) -> int:
        """The checksum of the content, taken when it was written."""
        return zlib.crc32(repr([self._checksums[part] for part in PARTS]).encode())

    def verify(self) -> None:
        """Read everything once and compare checksums."""
        self._check(".bin")

    def _check(self, part: str) -> None:
        if checksum_of_file(with_suffix(self.path, part)) != self._checksums[part]:
            raise _damaged(with_suffix(self.path, part))


@dataclass(frozen=True)
class TokenShardPair:
    """Shards of both sides of the same examples: `pairs[i]` is (source, target)."""

    source: TokenShard
    target: TokenShard

    def __post_init__(self) -> None:
        if len(self.source) != len(self.target):
            sizes = [f"{side.path} has {len(side)}" for side in (self.source, self.target)]
            raise BadInput(f"source and target must have equally many rows: {sizes[0]}, {sizes[1]}")

    def __len__(self) -> int:
        return len(self.source)

    @property
    def checksum(self) -> int:
        """The checksum of both sides."""
        return zlib.crc32(repr([self.source.checksum, self.target.checksum]).encode())

    def lengths(self, rows: np.ndarray) -> np.ndarray:
        """The lengths of some pairs: a column per side."""
        return np.stack([self.source.lengths_of(rows), self.target.lengths_of(rows)], axis=1)

    def __getitem__(self, i: int) -> tuple[np.ndarray, np.ndarray]:
        return self.source[i], self.target[i]

    def __iter__(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        return zip(self.source, self.target, strict=True)


def store_rows(
    path: Path,
    source: Source,
    sides: dict[str, int],
    settings: Mapping[str, object],
    encode: Callable[[DropCounts], Iterator[Chunk]],
    dropped: Dropped,
    *,
    read_only: bool = False,
    unique: bool = False,
) -> TokenShardPair:
    """Store two ``sides`` of rows, with ids below a limit each, in PATH.SIDE; see PATH.json.

    Rows are encoded anew if the files of ``source`` or ``settings`` have changed, or, if the store
    is ``read_only``, refused. Standard input cannot be compared, so it is always read. Examples
    that are left out are counted in ``dropped``; ``unique``: so are rows that occur before.
    """
    settings = {**settings, **({"deduplicate": True} if unique else {})}
    origin = {**source.origin, **settings, "skip_bad": dropped is not None}
    contents = {"origin": json.loads(json.dumps(origin)), "dropped": DropCounts()}
    record, paths = with_suffix(path, ".json"), [with_suffix(path, f".{side}") for side in sides]
    files = [record, *(with_suffix(side, part) for side in paths for part in (*PARTS, ".json"))]
    stored = read_json(record) if all(file.exists() for file in files) else {}
    if STDIN not in source.paths and stored.get("origin") == contents["origin"]:
        contents = stored
        for side in paths:
            TokenShard(side).verify()
    elif read_only:
        fault = "was not prepared from these files with these settings"
        raise BadInput(f"{path}: {fault}; prepare the data again")
    else:
        chunks = encode(contents["dropped"])
        first = next(chunks, None)
        if first is None:
            raise BadInput(f"{source.name}: no usable text (left out: {contents['dropped']})")
        write = write_unique if unique else write_staged
        left_out = write(paths, [*sides.values()], chain([first], chunks), record)
        write_json(record, {**contents, "duplicates": left_out} if left_out else contents)
    if dropped is not None:
        dropped.update(contents.get("dropped", {}))
    return TokenShardPair(*map(TokenShard, paths))


def write_staged(
    paths: Sequence[Path], vocabs: Collection[int], chunks: Iterable[Chunk], record: Path
) -> int:
    """Write chunks, each of which has rows for every path; leaves out 0 rows.

    Files get their names when all are complete. `record` describes the older files, and is
    deleted first: a crash in between leaves no files that look complete.
    """
    staged: list[_Staged] = []
    try:
        with writing(paths[0]):
            for path, vocab in zip(paths, vocabs, strict=True):
                path.parent.mkdir(parents=True, exist_ok=True)
                staged.append(_Staged(path, vocab))
            for chunk in chunks:
                for side, rows in zip(staged, chunk.sides, strict=True):
                    side.add(rows, chunk.is_open)
            record.unlink(missing_ok=True)
            for side in staged:
                side.publish()
    finally:
        for side in staged:
            side.discard()
    return 0


class _Staged:
    """Shard that is being written, under temporary names until `publish`."""

    def __init__(self, path: Path, vocab: int):
        self.path, self.vocab = path, vocab
        self.dtype = next(dtype for dtype in DTYPES if vocab <= 256 ** np.dtype(dtype).itemsize)
        self.rows = self.elements = 0
        self.checksums = dict.fromkeys(PARTS, 0)
        for part in PARTS:
            sweep(with_suffix(path, part))
        self.files = {part: temporary_name(with_suffix(path, part)).open("wb") for part in PARTS}
        self._append(".idx", np.zeros(1, OFFSET))

    def add(self, rows: Sequence[Ids], is_open: bool) -> None:
        ids, lengths = PackedRows.of(rows)
        if len(ids) and not 0 <= ids.min() <= ids.max() < self.vocab:
            raise ValueError(
                f"{self.path}: an id is not below the size of the vocabulary, {self.vocab}"
            )
        self._append(".bin", ids.astype(self.dtype))
        ends = (self.elements + lengths.cumsum()).astype(OFFSET)
        ends = ends[:-1] if is_open else ends
        self._append(".idx", ends)
        self.rows += len(ends)
        self.elements += len(ids)

    def _append(self, part: str, array: np.ndarray) -> None:
        self.files[part].write(array.tobytes())
        self.checksums[part] = zlib.crc32(array.tobytes(), self.checksums[part])

    def publish(self) -> None:
        with_suffix(self.path, ".json").unlink(missing_ok=True)
        for part, file in self.files.items():
            file.flush()
            os.fsync(file.fileno())
            file.close()
            temporary_name(with_suffix(self.path, part)).replace(with_suffix(self.path, part))
        meta = {name: getattr(self, name) for name in META}
        write_json(with_suffix(self.path, ".json"), {"format": FORMAT, **meta})

    def discard(self) -> None:
        for part, file in self.files.items():
            with suppress(OSError):  # the disk may be full
                file.close()
            temporary_name(with_suffix(self.path, part)).unlink(missing_ok=True)


def chunks_of(items: Iterable[Item]) -> Iterator[list[Item]]:
    """Lists of ``CHUNK`` items, the last one shorter."""
    iterator = iter(items)
    while chunk := list(islice(iterator, CHUNK)):
        yield chunk


def encode_chunks(
    encoders: Sequence[Encode],
    chunks: Iterable[Sequence[list[str]]],
    start_workers: StartWorkers | None,
) -> Iterator[list[Sequence[Ids]]]:
    """Rows of the texts of every side, chunk by chunk; workers encode several chunks at once."""
    if start_workers is None:
        for sides in chunks:
            yield _encode_sides(encoders, sides)
        return
    with start_workers(partial(_side_packer, encoders)) as workers:
        for packed in workers.map((sides,) for sides in chunks):
            yield [side.rows for side in packed]


def _side_packer(encoders: Sequence[Encode]) -> Callable[..., list[PackedRows]]:
    return partial(_pack_sides, encoders)


def _pack_sides(encoders: Sequence[Encode], sides: Sequence[list[str]]) -> list[PackedRows]:
    return [*map(PackedRows.of, _encode_sides(encoders, sides))]


def _encode_sides(encoders: Sequence[Encode], sides: Sequence[list[str]]) -> list[Sequence[Ids]]:
    """A row for every text of every side."""
    rows = [encode(texts) for encode, texts in zip(encoders, sides, strict=True)]
    if [*map(len, rows)] != [*map(len, sides)]:
        raise ValueError("the encoder gave fewer or more rows than it was given texts")
    return rows


def read_lengths(path: Path) -> Iterator[np.ndarray]:
    """The lengths of the rows at a path, in blocks."""
    last = np.zeros(1, OFFSET)
    with with_suffix(path, ".idx").open("rb") as index:
        index.seek(last.nbytes)
        while len(ends := np.fromfile(index, OFFSET, CHUNK)):
            yield np.diff(ends, prepend=last)
            last = ends[-1:]


def read_blocks(paths: Sequence[Path]) -> Iterator[list[list[np.ndarray]]]:
    """The rows at several paths, side by side, in blocks of few ids or of one row.

    Files are read, not mapped: pages of a mapped file would count as memory.
    """
    kinds = [TokenShard(path).dtype for path in paths]
    with ExitStack() as opened:
        files = [opened.enter_context(with_suffix(path, ".bin").open("rb")) for path in paths]
        for lengths in zip(*map(read_lengths, paths), strict=True):
            for first, last in successive_groups(np.sum(lengths, axis=0), BLOCK):
                rows = slice(first, last)
                yield [
                    np.split(
                        np.fromfile(file, kind, int(length[rows].sum())),
                        np.cumsum(length[rows])[:-1],
                    )
                    for file, kind, length in zip(files, kinds, lengths, strict=True)
                ]


def shard_path(folder: Path, name: str) -> Path:
    """Path of the shards of a set of examples, whose name may be a path, too."""
    return folder / quote(name, safe="")


def with_suffix(path: Path, suffix: str) -> Path:
    """The path with `suffix` appended."""
    return path.with_name(path.name + suffix)


def _mapped(path: Path, dtype: str, count: int) -> np.ndarray:
    """A memory-mapped file of exactly `count` numbers."""
    with reading(path):
        if path.stat().st_size != count * np.dtype(dtype).itemsize:
            raise _damaged(path)
        if count == 0:  # an empty file cannot be mapped
            return np.empty(0, dtype)
        return np.memmap(path, dtype, mode="r").view(np.ndarray)


def _damaged(path: Path) -> BadInput:
    return BadInput(f"{path}: damaged, or not written by this program; delete it")


COMPARED = ("source", "target", "tokens")  # sides that make two examples equal
HASHES = 1 << 17  # of a part, unless there are too many parts
MOST_PARTS = 256  # files that are open at once
HASH = np.dtype([("low", "<u8"), ("high", "<u8"), ("row", "<i8")])


def repeated_rows(paths: Sequence[Path]) -> np.ndarray:
    """Bits, eight in a byte: whether an example, with a row in each path, occurs before."""
    rows = len(TokenShard(paths[0]))
    bits = np.zeros(-(-rows // 8), np.uint8)
    if rows < 2:
        return bits
    parts = min(MOST_PARTS, -(-rows // HASHES))
    with ExitStack() as opened:
        files = [opened.enter_context(tempfile.TemporaryFile()) for _ in range(parts)]
        for hashes in _hashes(paths):
            part_N = hashes["low"] % np.uint64(parts)
            order = np.argsort(part_N, kind="stable")
            ends = np.searchsorted(part_N[order], np.arange(1, parts))
            for file, chosen in zip(files, np.split(hashes[order], ends), strict=True):
                file.write(chosen.tobytes())
        for file in files:
            repeated = _repeated(file)
            np.bitwise_or.at(bits, repeated >> 3, np.left_shift(1, repeated & 7).astype(np.uint8))
    return bits


def count_bits(bits: np.ndarray) -> int:
    """The number of bits that are set."""
    return int(ONES_IN_BYTE[bits].sum())


def write_unique(
    paths: Sequence[Path], vocabs: Collection[int], chunks: Iterable[Chunk], record: Path
) -> int:
    """Write chunks as ``write_staged`` does, but for rows that occur before; returns their number.

    All rows are first written beside the others.
    """
    every = [path.with_name(f"all.{path.name}") for path in paths]
    try:
        write_staged(every, vocabs, chunks, record)
        compared = [path for path in every if path.name.endswith(COMPARED)]
        bits = repeated_rows(compared)
        write_staged(paths, vocabs, _first_rows(every, bits), record)
    finally:
        for path in every:
            for part in (*PARTS, ".json"):
                with_suffix(path, part).unlink(missing_ok=True)
    return count_bits(bits)


def _first_rows(paths: Sequence[Path], bits: np.ndarray) -> Iterator[Chunk]:
    """The rows that do not occur before."""
    number = 0
    for sides in read_blocks(paths):
        row_N = number + np.arange(len(sides[0]))
        first_N = np.flatnonzero((bits[row_N >> 3] >> (row_N & 7)) & 1 == 0)
        yield Chunk([[side[i] for i in first_N] for side in sides])
        number += len(row_N)


def _hashes(paths: Sequence[Path]) -> Iterator[np.ndarray]:
    """Hashes of all examples with their numbers, in blocks."""
    number = 0
    for sides in read_blocks(paths):
        digests = b"".join(map(_digest, zip(*sides, strict=True)))
        hashes = np.empty(len(sides[0]), HASH)
        hashes["low"], hashes["high"] = np.frombuffer(digests, "<u8").reshape(-1, 2).T
        hashes["row"] = number + np.arange(len(hashes))
        yield hashes
        number += len(hashes)


def _digest(example: Sequence[np.ndarray]) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for row in example:
        digest.update(len(row).to_bytes(8))
        digest.update(row.tobytes())
    return digest.digest()


def _repeated(file: BinaryIO) -> np.ndarray:
    """The numbers of examples in a file of hashes that have the hash of an earlier one."""
    file.seek(0)
    hashes = np.frombuffer(file.read(), HASH)
    hashes = hashes[np.lexsort((hashes["row"], hashes["high"], hashes["low"]))]
    same = (hashes["low"][1:] == hashes["low"][:-1]) & (hashes["high"][1:] == hashes["high"][:-1])
    return hashes["row"][1:][same]
