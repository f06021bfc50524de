"""Duplicates among rows on disk: found by 128-bit hashes, which are sorted in parts.

Memory is a bit for each example and the hashes of one part; all hashes, 24 bytes for each example,
are in temporary files.
"""

import hashlib
import tempfile
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO

import numpy as np

from regard.data.batches.shards import (
    PARTS,
    Chunk,
    TokenShard,
    read_blocks,
    with_suffix,
    write_staged,
)
from regard.data.counter_rng import ONES_IN_BYTE

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
