"""The continuations of each sentence, the most probable first."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
from torch import Tensor

from regard.search.hypothesis import ActiveHypotheses
from regard.search.step import to_host
from regard.search.topk import topk


@dataclass(frozen=True)
class Candidates:
    """Continuations of the active hypotheses, by sentence, the most probable first."""

    sentence: np.ndarray
    parent: np.ndarray  # the row continued
    token: np.ndarray
    logprob: np.ndarray

    @cached_property
    def place(self) -> np.ndarray:
        """0, 1, 2, ... within each sentence."""
        return place(self.sentence)

    def select(self, size: int, eos: int) -> tuple[np.ndarray, np.ndarray]:
        """Which candidates end, and which stay active."""
        ends = self.token == eos
        ended = np.flatnonzero(ends & (self.place < size))
        going = np.flatnonzero(~ends)
        return ended, going[place(self.sentence[going]) < size]

    def grow(self, alive: ActiveHypotheses, chosen: np.ndarray) -> ActiveHypotheses:
        """The selected candidates as hypotheses."""
        return alive.grow(self.parent[chosen], self.token[chosen], self.logprob[chosen])

    def stuck(self, rows: int) -> np.ndarray:
        """The rows without any continuation."""
        return np.flatnonzero(np.bincount(self.parent, minlength=rows) == 0)


def rank(alive: ActiveHypotheses, logprobs_RV: Tensor, size: int) -> Candidates:
    """All candidates that ``select`` may need; ties by the earlier parent, then the lower token.

    A row has at most ``size`` continuations that stay active and one that ends.
    """
    top, index = topk(logprobs_RV, size + 1)
    values, tokens = to_host(top), index.cpu().numpy()
    sentence_R, slot_R = alive.sentence_R, place(alive.sentence_R)
    parents = np.zeros((sentence_R[-1] + 1, slot_R.max() + 1), dtype=np.int64)
    parents[sentence_R, slot_R] = np.arange(len(alive))
    totals = np.full((*parents.shape, values.shape[1]), -np.inf)
    totals[sentence_R, slot_R] = alive.total_R[:, None] + values
    totals = totals.reshape(len(parents), -1)  # a sentence's by parent, then by token
    order = np.argsort(-totals, axis=1, kind="stable")
    sentence, nth = np.nonzero(np.isfinite(np.take_along_axis(totals, order, axis=1)))
    slot, at = np.divmod(order[sentence, nth], values.shape[1])
    parent = parents[sentence, slot]
    return Candidates(sentence, parent, tokens[parent, at], values[parent, at].astype(np.float64))


def concatenate(parts: Sequence[Candidates]) -> Candidates:
    """The candidates of different sentences as one table."""
    names = [field.name for field in fields(Candidates)]
    columns = [np.concatenate([getattr(part, name) for part in parts]) for name in names]
    order = np.argsort(columns[0], kind="stable")
    return Candidates(*(column[order] for column in columns))


def place(groups: np.ndarray) -> np.ndarray:
    """0, 1, 2, ... within each run of equal numbers; ``groups`` is sorted."""
    sizes = np.bincount(groups)
    return np.arange(len(groups)) - (sizes.cumsum() - sizes)[groups]
