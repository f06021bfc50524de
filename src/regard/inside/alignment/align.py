"""Word alignment from attention: links between words, extracted from cross-attention weights.

Bahdanau et al. (2014, arXiv:1409.0473) use the weights of the step that predicts a target word.
Chen et al. (2020, arXiv:2004.14837) use the next step ("shifted"), which has the word as its input
and often aligns it better.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from regard.ground.errors import BadInput
from regard.inside.attention.attention_map import Groups, merge
from regard.metrics.alignment import AlignmentScore, GoldLinks, Links, alignment_error_rate
from regard.models.stack import AttentionSite, require_cross_attention


@dataclass(frozen=True)
class AlignmentMethod:
    """How links are extracted from the cross-attention of a model.

    ``head`` None averages the heads of ``layer``. ``shifted`` uses the decoder step whose input is
    the target token, instead of the step that predicts it. A target word is linked to every source
    word with at least ``share`` of its largest weight: 1 is the argmax (ties are all linked). With
    ``spurious`` it has no link if more than half of its weight lies outside all words, for example
    on the end-of-sentence token.
    """

    layer: int
    head: int | None = None
    shifted: bool = False
    share: float = 1.0
    spurious: bool = False

    @classmethod
    def noted(
        cls, notes: Mapping[str, Any], cross_attention: AttentionSite | None
    ) -> "AlignmentMethod":
        """The method that the notes of a model describe; by default that of its last layer."""
        last = require_cross_attention(cross_attention).layers - 1
        fields = notes.get("alignment") or {"layer": last}
        try:
            return cls(**fields)
        except TypeError:
            raise BadInput(
                f"config.json: notes.alignment is no alignment method ({fields})"
            ) from None

    def __str__(self) -> str:
        heads = "mean of heads" if self.head is None else f"head {self.head}"
        parts = [f"layer {self.layer}", heads, "shifted" if self.shifted else "plain"]
        if self.share < 1:
            parts.append(f"links from {self.share:g} of the largest weight")
        if self.spurious:
            parts.append("no link where most weight lies on no word")
        return ", ".join(parts)


class PairAttention(NamedTuple):
    """The cross-attention of one sentence pair, and the tokens of every word on both sides.

    ``layers`` holds a (heads, target tokens + 1, source tokens) array per layer: the decoder reads
    BOS y1 … yn and predicts y1 … yn EOS. ``target`` groups the positions of y1 … yn from zero.
    """

    layers: Sequence[np.ndarray]
    target: Groups
    source: Groups


def extract_links(pair: PairAttention, method: AlignmentMethod) -> Links:
    """The links of one sentence pair."""
    return select_links(word_attention(pair, method), method)


def choose_method(
    pairs: Sequence[PairAttention],
    golds: Sequence[GoldLinks],
    shares: Sequence[float] = (1.0, 0.9, 0.7, 0.5),
) -> tuple[AlignmentMethod, AlignmentScore]:
    """The method with the lowest alignment error rate on these sentences (a development set).

    Tries every layer (the mean of its heads), plain and shifted, every share, with and without
    spurious words; among equal scores the first, simplest method wins.
    """
    if not pairs:
        raise ValueError("no sentence pairs to choose an alignment method on")
    scored = _score_methods(pairs, golds, shares)
    return min(scored, key=lambda method_and_score: method_and_score[1].aer)


def _score_methods(
    pairs: Sequence[PairAttention], golds: Sequence[GoldLinks], shares: Sequence[float]
) -> Iterator[tuple[AlignmentMethod, AlignmentScore]]:
    for simplest in candidate_methods(pairs[0]):
        weights = [word_attention(pair, simplest) for pair in pairs]
        for share, spurious in product(shares, (False, True)):
            method = replace(simplest, share=share, spurious=spurious)
            hypotheses = [select_links(weights_LS, method) for weights_LS in weights]
            yield method, alignment_error_rate(hypotheses, golds)


def candidate_methods(pair: PairAttention) -> list[AlignmentMethod]:
    """Every layer, plain and shifted; each target word is linked to its largest weight."""
    layers = range(len(pair.layers))
    return [
        AlignmentMethod(layer, shifted=shifted) for layer, shifted in product(layers, (False, True))
    ]


def word_attention(pair: PairAttention, method: AlignmentMethod) -> np.ndarray:
    """(target words, source words); a row sums to the share of the weight that lies on words."""
    weights_HLS = pair.layers[method.layer]
    weights_LS = weights_HLS.mean(axis=0) if method.head is None else weights_HLS[method.head]
    rows_LS = weights_LS[1:] if method.shifted else weights_LS[:-1]
    return merge(rows_LS, pair.target, pair.source)


def select_links(weights_LS: np.ndarray, method: AlignmentMethod) -> Links:
    """The links of (target words, source words), by the share and spurious rule of ``method``."""
    peak_L1 = weights_LS.max(axis=1, keepdims=True, initial=0.0)
    linked_LS = (weights_LS >= method.share * peak_L1) & (peak_L1 > 0)
    if method.spurious:
        linked_LS &= weights_LS.sum(axis=1, keepdims=True) >= 0.5
    return frozenset((int(source), int(target)) for target, source in np.argwhere(linked_LS))
