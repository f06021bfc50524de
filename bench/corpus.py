"""Random data of the scripts of this folder, from a seed, so that every process draws the same.

Nothing but numpy is imported: peers read these rows in processes without regard.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

MASK, FIRST = 103, 1_000  # BERT's mask, and the first id that is no special token
RATE = 0.15  # of tokens that are masked
Pair = tuple[np.ndarray, np.ndarray]


class MaskedRow(NamedTuple):
    """Tokens of which those at ``positions`` are masked; ``originals`` stood there."""

    tokens: np.ndarray
    positions: np.ndarray
    originals: np.ndarray


def masked_rows(count: int, length: int, vocab: int, ragged: bool = False) -> list[MaskedRow]:
    """Masked rows, longest first; ``ragged`` ones have a quarter to all of the length."""
    draw = np.random.default_rng(1)
    lengths = draw.integers(length // 4, length + 1, count) if ragged else [length] * count
    rows = []
    for size in sorted(map(int, lengths), reverse=True):
        tokens = draw.integers(FIRST, vocab, size).astype(np.int32)
        positions = np.sort(draw.choice(size, max(1, int(RATE * size)), replace=False))
        originals = tokens[positions].copy()
        tokens[positions] = MASK
        rows.append(MaskedRow(tokens, positions, originals))
    return rows


def row_length(row: MaskedRow) -> int:
    """Its tokens."""
    return len(row.tokens)


def bucketed_rows(rows: Sequence[MaskedRow], count: int) -> list[list[MaskedRow]]:
    """Batches of ``count`` rows of like length, in random order."""
    ordered = sorted(rows, key=row_length)
    starts = np.random.default_rng(2).permutation(range(0, len(rows), count))
    return [ordered[start : start + count] for start in starts]


def row_padding(batches: Sequence[Sequence[MaskedRow]], multiple: int = 1) -> float:
    """The share of batches, padded to a multiple of a length, that is no token."""
    lengths = [list(map(row_length, batch)) for batch in batches]
    area = sum(len(sizes) * -(-max(sizes) // multiple) * multiple for sizes in lengths)
    return 1 - sum(map(sum, lengths)) / area


def blocks(count: int, length: int, vocab: int) -> np.ndarray:
    """Full rows of random tokens; one more than ``length``, as each has the next as its target."""
    return np.random.default_rng(1).integers(vocab, size=(count, length + 1))


def batches_of(rows: Sequence, count: int) -> list:
    """Consecutive batches of ``count`` rows."""
    return [rows[at : at + count] for at in range(0, len(rows), count)]


def images(count: int, rows: int, size: int, labels: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Batches of random bytes of colour images, and a label for each."""
    draw = np.random.default_rng(1)
    return [
        (
            draw.integers(256, size=(rows, 3, size, size), dtype=np.uint8),
            draw.integers(labels, size=rows),
        )
        for _ in range(count)
    ]
