"""Two translators of opposite directions over the same pairs: what they say together."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from regard.inside.align import Attended, Reading, linked, links, readings, word_weights
from regard.metrics.alignment import Links
from regard.metrics.symmetrise import flipped


class Agreed(NamedTuple):
    """How each direction is read, and the share of links on which they then agree, 0 to 1."""

    forward: Reading
    backward: Reading
    share: float


def choose_agreeing(forward: Sequence[Attended], backward: Sequence[Attended]) -> Agreed:
    """The two readings that agree most, of all layers, plain and shifted; no gold is needed.

    Two models that were trained apart have little to agree on but the alignment itself, so where
    they agree most they are likely to be right (Chen et al., 2020, arXiv:2004.14837, choose their
    layers so). The share is 2 |A ∩ B| / (|A| + |B|) over all pairs; of equals the first, simplest.
    """
    if not forward or len(forward) != len(backward):
        raise ValueError(f"{len(forward)} pairs forward, {len(backward)} backward")
    ours, theirs = readings(forward[0]), readings(backward[0])
    said = np.stack([_cells(forward, one, flip=False) for one in ours])
    answered = np.stack([_cells(backward, one, flip=True) for one in theirs])
    total = said.sum(axis=1)[:, None] + answered.sum(axis=1)
    share = 2 * (said @ answered.T) / np.maximum(total, 1)
    at = np.unravel_index(share.argmax(), share.shape)
    return Agreed(ours[at[0]], theirs[at[1]], float(share[at]))


def multiplied(
    forward: Attended, backward: Attended, ours: Reading, theirs: Reading
) -> tuple[Links, Links]:
    """Links of both directions, (source, target) each, read from the product of their weights.

    A pair of words that both directions look at stands out in the product, and one that only one
    of them looks at hardly shows; so each direction is read with the knowledge of the other.
    """
    said, answered = (
        word_weights(attended, reading)
        for attended, reading in ((forward, ours), (backward, theirs))
    )
    both = said * answered.T
    ours, theirs = (replace(reading, spurious=False) for reading in (ours, theirs))
    return linked(both, ours), flipped(linked(both.T, theirs))


def _cells(attended: Sequence[Attended], reading: Reading, flip: bool) -> np.ndarray:
    """1 for every linked pair of words, 0 for every other, of all sentences end to end."""
    cells = []
    for each in attended:
        linked = np.zeros((len(each.source), len(each.target)), dtype=np.float32)
        for link in links(each, reading):
            linked[link] = 1
        cells.append((linked.T if flip else linked).ravel())
    return np.concatenate(cells)
