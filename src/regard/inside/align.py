"""Attention read as word alignment: cross-attention weights to links between words.

Plain reading as in Bahdanau et al. (2014, arXiv:1409.0473); shifted reading as in Chen et al.
(2020, arXiv:2004.14837): the step that *reads* a target word often knows its source better than
the step that predicts it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np

from regard.inside.maps import Groups, merge
from regard.metrics.alignment import AlignmentScore, Gold, Links, alignment_error_rate


@dataclass(frozen=True)
class Reading:
    """How links are read from the cross-attention of a model.

    ``head`` None averages the heads of ``layer``. ``shifted`` takes the row whose input is the
    target token instead of the row that predicts it. A target word is linked to every source word
    with at least ``share`` of its largest weight: 1 is the argmax (ties are all linked). With
    ``spurious`` it is linked to none when more than half of its attention lies on no word (the end
    mark, say).
    """

    layer: int
    head: int | None = None
    shifted: bool = False
    share: float = 1.0
    spurious: bool = False


class Attended(NamedTuple):
    """The cross-attention of one sentence pair, and the tokens of every word on both sides.

    ``layers`` holds a (heads, target tokens + 1, source tokens) array per layer: the decoder reads
    BOS y1 … yn and predicts y1 … yn EOS. ``target`` groups the positions of y1 … yn from zero.
    """

    layers: Sequence[np.ndarray]
    target: Groups
    source: Groups


def links(attended: Attended, reading: Reading) -> Links:
    """The links of one sentence pair."""
    return linked(word_weights(attended, reading.layer, reading.head, reading.shifted), reading)


def choose(
    attended: Sequence[Attended],
    golds: Sequence[Gold],
    shares: Sequence[float] = (1.0, 0.9, 0.7, 0.5),
    each_head: bool = False,
) -> tuple[Reading, AlignmentScore]:
    """The reading with the lowest alignment error rate on these sentences (a development set).

    Tries every layer (and, with ``each_head``, every head beside their mean), plain and shifted,
    every share, with and without spurious words; of equals the first, simplest one is kept.
    """
    if not attended:
        raise ValueError("no sentence pairs to choose a reading on")
    judged = _judged(attended, golds, shares, each_head)
    return min(judged, key=lambda reading_and_score: reading_and_score[1].aer)


def _judged(
    attended: Sequence[Attended], golds: Sequence[Gold], shares: Sequence[float], each_head: bool
) -> Iterator[tuple[Reading, AlignmentScore]]:
    for layer, head, shifted in _matrices(attended[0], each_head):
        weights = [word_weights(each, layer, head, shifted) for each in attended]
        for share, spurious in product(shares, (False, True)):
            reading = Reading(layer, head, shifted, share, spurious)
            hypotheses = [linked(weights_LS, reading) for weights_LS in weights]
            yield reading, alignment_error_rate(hypotheses, golds)


def readings(attended: Attended, each_head: bool = False) -> list[Reading]:
    """Every layer, plain and shifted, each target word linked to its largest weight."""
    return [Reading(*each) for each in _matrices(attended, each_head)]


def _matrices(attended: Attended, each_head: bool) -> Iterator[tuple[int, int | None, bool]]:
    """Every layer, head and shift to try."""
    for layer, weights_HLS in enumerate(attended.layers):
        heads = [None, *range(len(weights_HLS))] if each_head else [None]
        for head, shifted in product(heads, (False, True)):
            yield layer, head, shifted


def word_weights(attended: Attended, layer: int, head: int | None, shifted: bool) -> np.ndarray:
    """(target words, source words): a row sums to what the target word spends on words at all."""
    weights_HLS = attended.layers[layer]
    weights_LS = weights_HLS.mean(axis=0) if head is None else weights_HLS[head]
    rows_LS = weights_LS[1:] if shifted else weights_LS[:-1]
    return merge(rows_LS, attended.target, attended.source)


def linked(weights_LS: np.ndarray, reading: Reading) -> Links:
    """The links of (target words, source words); of the reading, only what it makes of weights."""
    peak_L1 = weights_LS.max(axis=1, keepdims=True, initial=0.0)
    linked_LS = (weights_LS >= reading.share * peak_L1) & (peak_L1 > 0)
    if reading.spurious:
        linked_LS &= weights_LS.sum(axis=1, keepdims=True) >= 0.5
    return frozenset((int(source), int(target)) for target, source in np.argwhere(linked_LS))
