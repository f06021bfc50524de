"""Measures of one head: what it attends to, as a mean over the words of many inputs.

Entropy and sinks follow Clark et al. (2019, arXiv:1906.04341), positions and rare words Voita et
al. (2019, arXiv:1905.09418, section 5), scores of causal heads Olsson et al. (2022,
arXiv:2209.11895), and distances in images Dosovitskiy et al. (2021, arXiv:2010.11929, figure 7).
"""

from collections import defaultdict
from collections.abc import Callable, Mapping

import numpy as np

from regard.inside.attention.induction import follows_earlier
from regard.inside.heads.head_weights import HeadWeights

FARTHEST = 4  # words: the largest relative offset that is told apart
TIED = 1e-6  # difference of weights that count as equal

Sums = tuple[np.ndarray, np.ndarray | float]
"""Sums over queries, with heads first, and what to divide them by: the number of queries."""

Measure = Callable[[np.ndarray, HeadWeights], Sums]


def entropy(weights_HLS: np.ndarray, words: HeadWeights) -> Sums:
    """Entropy of the weights of a query, in bits."""
    entropy_HL = _entropies(weights_HLS)[:, ~words.query_special]
    return entropy_HL.sum(-1), float(entropy_HL.shape[1])


def entropy_share(weights_HLS: np.ndarray, words: HeadWeights) -> Sums:
    """Entropy as a share of the entropy of uniform weights, over queries with two keys or more."""
    keys_L = words.allowed.sum(-1)
    counted = ~words.query_special & (keys_L > 1)
    shares_HL = _entropies(weights_HLS)[:, counted] / np.log2(keys_L[counted])
    return shares_HL.sum(-1), float(counted.sum())


def special_share(weights_HLS: np.ndarray, words: HeadWeights) -> Sums:
    """Weight on special tokens; nothing is measured if there are none."""
    if not words.key_special.any():
        return np.zeros(len(weights_HLS)), 0.0
    own_HL = weights_HLS[:, ~words.query_special][..., words.key_special].sum(-1)
    return own_HL.sum(-1), float(own_HL.shape[1])


def first_share(weights_HLS: np.ndarray, words: HeadWeights) -> Sums:
    """Weight on the first token, by later queries."""
    counted = ~words.query_special
    counted[0] &= not words.within
    return weights_HLS[:, counted, 0].sum(-1), float(counted.sum())


def rare(weights_HLS: np.ndarray, words: HeadWeights) -> Sums:
    """Share of queries whose largest weight lies on a least frequent word of the text."""
    if words.rare is None:
        return np.zeros(len(weights_HLS)), 0.0
    shares_HLS, counted = _largest(weights_HLS, words)
    return shares_HLS[:, counted][..., words.rare].sum((1, 2)), float(counted.sum())


def rare_chance(weights_HLS: np.ndarray, words: HeadWeights) -> Sums:
    """Share of least frequent words among the words that a query can attend to."""
    if words.rare is None:
        return np.zeros(len(weights_HLS)), 0.0
    able_LS = words.allowed & ~words.key_special
    counted = _countable(words)
    shares_L = (able_LS & words.rare)[counted].sum(-1) / able_LS[counted].sum(-1)
    return np.full(len(weights_HLS), shares_L.sum()), float(counted.sum())


def offsets(weights_HLS: np.ndarray, words: HeadWeights) -> Sums:
    """Queries with the largest weight at each offset from -FARTHEST, and those that have a word
    there.

    Only of self-attention over texts.
    """
    every = np.arange(-FARTHEST, FARTHEST + 1)
    if not words.within or words.grid is not None:
        return np.zeros((len(weights_HLS), len(every))), np.zeros(len(every))
    shares_HLS, counted = _largest(weights_HLS, words)
    at = np.arange(shares_HLS.shape[1])[:, None]
    places = at + every
    inside = (places >= 0) & (places < len(words.key_special))
    places = np.where(inside, places, 0)
    able_LS = words.allowed & ~words.key_special
    hits = np.where(inside, shares_HLS[:, at, places], 0.0)
    return hits[:, counted].sum(1), (inside & able_LS[at, places])[counted].sum(0)


def diagonal(weights_HLS: np.ndarray, words: HeadWeights) -> Sums:
    """Share of the words of a target whose largest weight is within one word of the diagonal.

    Only of cross-attention, between texts of four words or more.
    """
    peaks_HL, counted = peaks(weights_HLS, words)
    sources = int((~words.key_special).sum())
    targets = int(counted.sum())
    if words.within or min(sources, targets) < 4:
        return np.zeros(len(weights_HLS)), 0.0
    line_L = np.linspace(0, sources - 1, targets)
    ranks = np.cumsum(~words.key_special) - 1
    near_HL = np.abs(ranks[peaks_HL[:, counted]] - line_L) <= 1
    return near_HL.sum(-1), float(targets)


def distance(weights_HLS: np.ndarray, words: HeadWeights) -> Sums:
    """Mean distance in patches between a patch and those it attends to, weighted by attention."""
    if words.grid is None:
        return np.zeros(len(weights_HLS)), 0.0
    patches = np.argwhere(np.ones(words.grid, bool))
    apart_LS = np.linalg.norm(patches[:, None] - patches, axis=-1)
    among_HLS = weights_HLS[:, ~words.query_special][..., ~words.key_special]
    mean_HL = (among_HLS * apart_LS).sum(-1) / np.maximum(among_HLS.sum(-1), 1e-12)
    return mean_HL.sum(-1), float(len(patches))


def previous(weights_HLS: np.ndarray, tokens: HeadWeights) -> Sums:
    """Weight on the token before the query."""
    own_HL = np.diagonal(weights_HLS, -1, axis1=1, axis2=2)
    return own_HL.sum(-1), float(own_HL.shape[1])


def duplicate(weights_HLS: np.ndarray, tokens: HeadWeights) -> Sums:
    """Weight on earlier occurrences of the query's token, over queries that have any."""
    return _on(np.tril(tokens.ids[:, None] == tokens.ids, -1), weights_HLS)


def induction(weights_HLS: np.ndarray, tokens: HeadWeights) -> Sums:
    """Weight on tokens that followed earlier occurrences of the query's token."""
    return _on(follows_earlier(tokens.ids), weights_HLS)


OVER_WORDS: Mapping[str, Measure] = {
    "entropy": entropy,
    "of uniform": entropy_share,
    "special": special_share,
    "first": first_share,
    "rare": rare,
    "rare chance": rare_chance,
    "diagonal": diagonal,
    "distance": distance,
    "offsets": offsets,
}
"""Measures over words, by the name of their column."""

OVER_TOKENS: Mapping[str, Measure] = {
    "previous": previous,
    "duplicate": duplicate,
    "induction": induction,
}
"""Measures of causal self-attention over tokens that are read twice."""


def peaks(weights_HLS: np.ndarray, words: HeadWeights) -> tuple[np.ndarray, np.ndarray]:
    """Key with the largest weight of each query (heads, queries), special tokens left out, and
    the mask of queries that count: not special, with a choice of two keys or more.
    """
    able_LS = words.allowed & ~words.key_special
    return np.where(able_LS, weights_HLS, -1.0).argmax(-1), _countable(words)


def _largest(weights_HLS: np.ndarray, words: HeadWeights) -> tuple[np.ndarray, np.ndarray]:
    """Shares (heads, queries, keys) of each key in the largest weight of a query, and the mask of
    queries that count, as ``peaks``: equal weights, as in uniform attention, share it.
    """
    able_HLS = np.where(words.allowed & ~words.key_special, weights_HLS, -1.0)
    tied_HLS = able_HLS >= able_HLS.max(-1, keepdims=True) - TIED
    return tied_HLS / tied_HLS.sum(-1, keepdims=True), _countable(words)


class MeanOverQueries:
    """Means of measures over all queries of many inputs, by layer and head."""

    def __init__(self, measures: Mapping[str, Measure]):
        self.measures = measures
        self.sums: dict[str, dict[int, np.ndarray]] = defaultdict(dict)
        self.counts: dict[str, dict[int, np.ndarray | float]] = defaultdict(dict)

    def add(self, weights: HeadWeights) -> None:
        """Add the weights of one input."""
        for name, measure in self.measures.items():
            sums, counts = self.sums[name], self.counts[name]
            for layer, weights_HLS in enumerate(weights.layers):
                total, count = measure(weights_HLS, weights)
                sums[layer] = sums.get(layer, 0) + total
                counts[layer] = counts.get(layer, 0.0) + count

    def mean(self, name: str, layer: int, head: int) -> float | None:
        """Mean of a measure; None if it applies to no query."""
        count = self.counts[name].get(layer, 0.0)
        return float(self.sums[name][layer][head] / count) if np.all(count) else None

    def best_offset(self, layer: int, head: int) -> tuple[int, float] | tuple[None, None]:
        """Offset that most queries attend to, and the share of them among those that can."""
        hits, able = self.sums["offsets"][layer][head], self.counts["offsets"][layer]
        if not np.any(able):
            return None, None
        best = int(hits.argmax())
        return best - FARTHEST, float(hits[best] / np.maximum(able, 1)[best])


def _entropies(weights_HLS: np.ndarray) -> np.ndarray:
    return -(weights_HLS * np.log2(np.maximum(weights_HLS, 1e-12))).sum(-1)


def _countable(words: HeadWeights) -> np.ndarray:
    """Mask of queries that are not special and can attend to two words or more."""
    return ~words.query_special & ((words.allowed & ~words.key_special).sum(-1) > 1)


def _on(keys_LS: np.ndarray, weights_HLS: np.ndarray) -> Sums:
    """Weight on the marked keys, over the queries that have any."""
    counted = keys_LS.any(-1)
    return (weights_HLS * keys_LS).sum(-1)[:, counted].sum(-1), float(counted.sum())
