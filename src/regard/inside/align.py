"""Attention read as word alignment: cross-attention weights to links between words.

Plain reading as in Bahdanau et al. (2014, arXiv:1409.0473); shifted reading as in Chen et al.
(2020, arXiv:2004.14837): the step that *reads* a target word often knows its source better than
the step that predicts it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import NamedTuple

import numpy as np

from regard.inside.maps import Groups, merge
from regard.metrics.alignment import AlignmentScore, GoldLinks, Links, alignment_error_rate


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

    def __str__(self) -> str:
        heads = "mean of heads" if self.head is None else f"head {self.head}"
        said = [f"layer {self.layer}", heads, "shifted" if self.shifted else "plain"]
        if self.share < 1:
            said.append(f"links from {self.share:g} of the largest weight")
        if self.spurious:
            said.append("none where most weight lies on no word")
        return ", ".join(said)


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
    return linked(word_weights(attended, reading), reading)


def choose(
    attended: Sequence[Attended],
    golds: Sequence[GoldLinks],
    shares: Sequence[float] = (1.0, 0.9, 0.7, 0.5),
) -> tuple[Reading, AlignmentScore]:
    """The reading with the lowest alignment error rate on these sentences (a development set).

    Tries every layer (the mean of its heads), plain and shifted, every share, with and without
    spurious words; of equals the first, simplest one is kept.
    """
    if not attended:
        raise ValueError("no sentence pairs to choose a reading on")
    judged = _judged(attended, golds, shares)
    return min(judged, key=lambda reading_and_score: reading_and_score[1].aer)


def _judged(
    attended: Sequence[Attended], golds: Sequence[GoldLinks], shares: Sequence[float]
) -> Iterator[tuple[Reading, AlignmentScore]]:
    for plainest in readings(attended[0]):
        weights = [word_weights(each, plainest) for each in attended]
        for share, spurious in product(shares, (False, True)):
            reading = replace(plainest, share=share, spurious=spurious)
            hypotheses = [linked(weights_LS, reading) for weights_LS in weights]
            yield reading, alignment_error_rate(hypotheses, golds)


def readings(attended: Attended) -> list[Reading]:
    """Every layer, plain and shifted, each target word linked to its largest weight."""
    layers = range(len(attended.layers))
    return [Reading(layer, shifted=shifted) for layer, shifted in product(layers, (False, True))]


def word_weights(attended: Attended, reading: Reading) -> np.ndarray:
    """(target words, source words): a row sums to what the target word spends on words at all."""
    weights_HLS = attended.layers[reading.layer]
    head = reading.head
    weights_LS = weights_HLS.mean(axis=0) if head is None else weights_HLS[head]
    rows_LS = weights_LS[1:] if reading.shifted else weights_LS[:-1]
    return merge(rows_LS, attended.target, attended.source)


def linked(weights_LS: np.ndarray, reading: Reading) -> Links:
    """The links of (target words, source words); of the reading, only what it makes of weights."""
    peak_L1 = weights_LS.max(axis=1, keepdims=True, initial=0.0)
    linked_LS = (weights_LS >= reading.share * peak_L1) & (peak_L1 > 0)
    if reading.spurious:
        linked_LS &= weights_LS.sum(axis=1, keepdims=True) >= 0.5
    return frozenset((int(source), int(target)) for target, source in np.argwhere(linked_LS))
