"""Alignment with two translation models of opposite directions over the same sentence pairs."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from regard.inside.alignment.align import (
    AlignmentMethod,
    PairAttention,
    candidate_methods,
    extract_links,
    select_links,
    word_attention,
)
from regard.metrics.alignment import Links, flipped


class AgreeingMethods(NamedTuple):
    """An alignment method for each direction, and the share of links they have in common (0-1)."""

    forward: AlignmentMethod
    backward: AlignmentMethod
    share: float


def choose_agreeing_methods(
    forward: Sequence[PairAttention], backward: Sequence[PairAttention]
) -> AgreeingMethods:
    """The two methods that agree most, of all layers, plain and shifted; no gold is needed.

    Two models that were trained independently have little in common but the alignment, so where
    they agree most they are likely to be right (Chen et al., 2020, arXiv:2004.14837, choose their
    layers this way). The share is 2 |A ∩ B| / (|A| + |B|) over all pairs; among equal shares the
    first, simplest methods win.
    """
    if not forward or len(forward) != len(backward):
        raise ValueError(f"{len(forward)} pairs forward, {len(backward)} backward")
    ours, theirs = candidate_methods(forward[0]), candidate_methods(backward[0])
    forward_links = np.stack([_link_indicators(forward, method, flip=False) for method in ours])
    backward_links = np.stack([_link_indicators(backward, method, flip=True) for method in theirs])
    total = forward_links.sum(axis=1)[:, None] + backward_links.sum(axis=1)
    share = 2 * (forward_links @ backward_links.T) / np.maximum(total, 1)
    best = np.unravel_index(share.argmax(), share.shape)
    return AgreeingMethods(ours[best[0]], theirs[best[1]], float(share[best]))


def multiply_directions(
    forward: PairAttention,
    backward: PairAttention,
    ours: AlignmentMethod,
    theirs: AlignmentMethod,
) -> tuple[Links, Links]:
    """Links of both directions, (source, target) each, from the product of their weights.

    The product is large only for pairs of words to which both directions give weight, so each
    direction is corrected by the other.
    """
    product_LS = word_attention(forward, ours) * word_attention(backward, theirs).T
    ours, theirs = (replace(method, spurious=False) for method in (ours, theirs))
    return select_links(product_LS, ours), flipped(select_links(product_LS.T, theirs))


def _link_indicators(
    pairs: Sequence[PairAttention], method: AlignmentMethod, flip: bool
) -> np.ndarray:
    """1 for every linked pair of words, 0 for every other, of all sentences end to end."""
    cells = []
    for pair in pairs:
        linked = np.zeros((len(pair.source), len(pair.target)), dtype=np.float32)
        for link in extract_links(pair, method):
            linked[link] = 1
        cells.append((linked.T if flip else linked).ravel())
    return np.concatenate(cells)
