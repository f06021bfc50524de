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


def sentence_pairs(
    steps: int, tokens: int, rows: int, longest: int, vocab: int
) -> list[list[Pair]]:
    """Batches of pairs of sentence-like lengths, sorted, that fill a budget on either side."""
    draw = np.random.default_rng(1)
    return [_pairs_within(tokens, rows, longest, vocab, draw) for _ in range(steps)]


def _pairs_within(
    tokens: int, rows: int, longest: int, vocab: int, draw: np.random.Generator
) -> list[Pair]:
    pairs: list[Pair] = []
    totals = np.zeros(2, dtype=int)
    while len(pairs) < rows:
        source = int(np.clip(draw.normal(27, 12), 3, longest - 1))
        target = int(np.clip(source + draw.normal(1, 4), 3, longest - 1))
        totals += (source + 1, target + 1)
        if totals.max() > tokens:
            break
        pairs.append((draw.integers(4, vocab, source), draw.integers(4, vocab, target)))
    return sorted(pairs, key=lambda pair: (-len(pair[0]), -len(pair[1])))


def short_pairs(count: int, vocab: int, longest: int) -> list[Pair]:
    """Pairs of random tokens, as long as those of Multi30k."""
    draw = np.random.default_rng(1)
    lengths = np.clip(draw.normal(13, 4, count), 4, longest - 1).astype(int)
    others = np.clip(lengths + draw.normal(0, 2, count), 4, longest - 1).astype(int)
    return [
        (draw.integers(4, vocab, source), draw.integers(4, vocab, target))
        for source, target in zip(lengths, others, strict=True)
    ]


def bucketed_pairs(pairs: Sequence[Pair], tokens: int) -> list[list[Pair]]:
    """Batches of pairs of like length, padded to at most ``tokens`` on either side, shuffled.

    Sorted by the longer side: of the usual keys it leaves the least padding.
    """
    batches: list[list[Pair]] = [[]]
    for pair in sorted(pairs, key=lambda pair: (max(map(len, pair)), len(pair[0]))):
        if (len(batches[-1]) + 1) * (max(map(len, pair)) + 1) > tokens:
            batches.append([])
        batches[-1].append(pair)
    return [batches[at] for at in np.random.default_rng(2).permutation(len(batches))]


def pair_padding(batches: Sequence[Sequence[Pair]]) -> float:
    """The share of padded batches of pairs that is no token."""
    sides = [[len(pair[side]) + 1 for pair in batch] for batch in batches for side in (0, 1)]
    return 1 - sum(map(sum, sides)) / sum(len(side) * max(side) for side in sides)


def streams(steps: int, rows: int, length: int, vocab: int) -> np.ndarray:
    """For each step, as many random words of every stream, and the next one as the last target."""
    return np.random.default_rng(1).integers(0, vocab, (steps, rows, length + 1))
