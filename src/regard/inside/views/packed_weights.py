"""Attention weights as text for an HTML page, compressed, and rounded until the page has room.

A matrix is written in ten-thousandths, or in steps from 0 to the largest weight of each row. Steps
are finer near 0, where most weights are: level = steps · share ** POWER.
"""

import zlib
from base64 import b64encode
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from regard.inside.attention.attention_map import AttentionMap

UNIT = 10_000
POWER = 0.75
STEPS = (255, 180, 127, 90, 63, 45, 31, 22, 15, 11, 7, 5, 3)
SAMPLE = 8  # one matrix of so many is packed to estimate the size of all


class Packing(NamedTuple):
    """Rounding of weights: to ten-thousandths, or to ``steps`` of the largest weight of a row."""

    steps: int | None = None

    def pack(self, weights_LS: np.ndarray) -> str:
        """Weights, row by row, as compressed text."""
        return compress(_in_units(weights_LS) if self.steps is None else self._in_steps(weights_LS))

    def _in_steps(self, weights_LS: np.ndarray) -> bytes:
        """Largest weight of each row in 32 bits, then a byte for each weight."""
        peaks_L = weights_LS.max(axis=-1, initial=0.0).astype("<f4")
        shares_LS = weights_LS / np.where(peaks_L > 0, peaks_L, 1)[:, None]
        assert self.steps is not None
        levels_LS = np.rint(self.steps * shares_LS**POWER).astype(np.uint8)
        return peaks_L.tobytes() + levels_LS.tobytes()


class PackedMap(NamedTuple):
    """Packed weights of the heads of each layer, with means that a page need not compute.

    ``means`` are of the heads of each layer (None: fewer than two), ``mean`` is that of all layers
    (None: no heads at all).
    """

    steps: int | None
    layers: list[list[str]]
    means: list[str | None]
    mean: str | None

    @property
    def size(self) -> int:
        """Number of characters."""
        heads = (head for layer in self.layers for head in layer)
        return sum(map(len, filter(None, (*heads, *self.means, self.mean))))


def pack_maps(maps: Sequence[AttentionMap], most: int) -> list[PackedMap] | None:
    """Weights of all heads, rounded as little as ``most`` characters allow; None: they do not."""
    matrices = [weights_LS for each in maps for layer in each.layers for weights_LS in layer]
    sample = matrices[SAMPLE // 2 :: SAMPLE]
    for packing in (Packing(), *map(Packing, STEPS)):
        estimate = sum(len(packing.pack(weights_LS)) for weights_LS in sample)
        if estimate * len(matrices) > most * max(len(sample), 1):
            continue
        packed = [_pack_map(each, packing) for each in maps]
        if sum(each.size for each in packed) <= most:
            return packed
    return None


def _pack_map(shown: AttentionMap, packing: Packing) -> PackedMap:
    layers = [[packing.pack(weights_LS) for weights_LS in layer] for layer in shown.layers]
    means = [packing.pack(each.mean(axis=0)) if len(each) > 1 else None for each in shown.layers]
    mean = packing.pack(shown.select()) if any(map(len, shown.layers)) else None
    return PackedMap(packing.steps, layers, means, mean)


def compress(data: bytes) -> str:
    """Text of bytes, by Huffman codes and runs (raw deflate) and base64.

    Attention weights seldom repeat longer strings, and a search for these takes most of the time.
    """
    deflate = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS, 9, zlib.Z_RLE)
    return b64encode(deflate.compress(data) + deflate.flush()).decode()


def _in_units(weights_LS: np.ndarray) -> bytes:
    """Weights as whole ten-thousandths: one byte below 128, else two, high bits first.

    Most weights of a long text are small. The first of two bytes is 128 plus the high seven bits.
    """
    units = np.rint(weights_LS * UNIT).astype(np.int64).ravel()
    large = units >= 128
    starts = np.arange(units.size) + large.cumsum() - large
    written = np.empty(units.size + large.sum(), np.uint8)
    written[starts] = np.where(large, 128 | units >> 7, units)
    written[starts[large] + 1] = units[large] & 127
    return written.tobytes()
