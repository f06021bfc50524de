"""Beam search: at every step the k best hypotheses go on, and those that end are set aside."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from regard.ground.errors import BadInput
from regard.search.aside import Aside
from regard.search.highest import highest
from regard.search.hypothesis import Alive, Hypothesis
from regard.search.limits import Limits, restrict
from regard.search.rules import Length, check, formula, normalised, to_beat, uncovered
from regard.search.step import CoverageState, State, feed, keep, read


@dataclass(frozen=True)
class Beam:
    """``size`` hypotheses go on per sentence; the ``best`` come back.

    At each step all continuations of a sentence are ranked by log p. Those among the first ``size``
    that end are set aside; the first ``size`` that do not end go on. A sentence is over when

    - ``finished`` hypotheses have been set aside (by default ``size``, or ``best`` if more);
    - or nothing alive can still be among the best (``early``): no log p is above what is needed
      ``to_beat`` the last of them, and the coverage term is at most 0;
    - or its limit is reached. Then the hypotheses alive, unfinished, fill the places that finished
      ones leave among the best. One that nothing can be added to is unfinished as well.

    Scores follow ``formula``, where n counts the tokens, EOS included and BOS not. The length rule
    and the coverage penalty rank what was set aside; they do not steer the beam. With ``no_repeat``
    no run of that many tokens occurs twice in a hypothesis.
    """

    size: int = 5
    best: int = 1
    length: Length = "gnmt"
    alpha: float = 0.6
    coverage: float = 0.0
    finished: int | None = None
    no_repeat: int = 0
    early: bool = True

    def __post_init__(self) -> None:
        if min(self.size, self.best) < 1 or self.enough < self.best:
            raise BadInput(f"size and best must be at least 1, finished at least best, in {self}")
        check(self.length, self.alpha)
        if not 0 <= self.coverage < math.inf or self.no_repeat < 0:
            raise BadInput(f"coverage and no_repeat must be at least 0 in {self}")

    @property
    def enough(self) -> int:
        """Finished hypotheses at which a sentence is over."""
        return max(self.size, self.best) if self.finished is None else self.finished

    @property
    def formula(self) -> str:
        """The score in use; n is the number of tokens, EOS included."""
        plain = formula(self.length, self.alpha)
        if not self.coverage:
            return plain
        return f"{plain} + {self.coverage:g} Σ_i log min(Σ_j a_ij, 1)"

    @torch.inference_mode()
    def __call__(
        self,
        state: State,
        limits: Limits,
        prefixes: Sequence[Sequence[int]] | None = None,
        ids: Sequence[int] | None = None,
    ) -> list[list[Hypothesis]]:
        """See ``Search``."""
        longest_B, forced_BL = limits.longest_of(state.rows), limits.forced(prefixes, state.rows)
        aside = Aside(state.rows, self.best, self.scores)
        alive = Alive.begin(limits.bos_of(state.rows))
        while len(alive):
            logprobs_RV = feed(state, alive.last_R)
            looked = look(state, alive) if self.coverage else alive
            restrict(logprobs_RV, alive, limits, forced_BL, self.no_repeat)
            candidates = rank(alive, logprobs_RV, self.size)
            ended, going = candidates.select(self.size, limits.eos)

            finished, grown = candidates.grow(looked, ended), candidates.grow(looked, going)
            at_limit = longest_B[grown.sentence_R] == grown.length
            aside.add(finished, finished=True)
            aside.add(grown.take(at_limit), finished=False)
            aside.add(alive.take(candidates.stuck(len(alive))), finished=False)

            on = np.flatnonzero(~at_limit & ~self.settled(grown, longest_B, aside))
            alive = grown.take(on)
            if len(alive):
                keep(state, candidates.parent[going[on]])
        return aside.results()

    def scores(self, rows: Alive) -> np.ndarray:
        """``formula`` for each row."""
        scores_R = normalised(rows.total_R, rows.length, self.length, self.alpha)
        if rows.coverage_RS is None:
            return scores_R
        return scores_R + self.coverage * np.array([uncovered(one) for one in rows.coverage_RS])

    def settled(self, rows: Alive, longest_B: np.ndarray, aside: Aside) -> np.ndarray:
        """Whether the sentence of each row needs no further step."""
        sentence_R = rows.sentence_R
        enough = aside.count_B[sentence_R] >= self.enough
        if not self.early:
            return enough
        leader_R = np.arange(len(rows)) - place(sentence_R)  # a sentence's first row is its best
        longest_R, bar_R = longest_B[sentence_R], aside.bar_B[sentence_R]
        needed_R = to_beat(bar_R, longest_R, self.length, self.alpha)
        return enough | (rows.total_R[leader_R] <= needed_R)


@dataclass(frozen=True)
class Candidates:
    """Continuations of the hypotheses alive, by sentence and within it the most probable first."""

    sentence: np.ndarray
    parent: np.ndarray  # the row continued
    token: np.ndarray
    logprob: np.ndarray

    def select(self, size: int, eos: int) -> tuple[np.ndarray, np.ndarray]:
        """Which candidates end, and which go on."""
        ends = self.token == eos
        ended = np.flatnonzero(ends & (place(self.sentence) < size))
        going = np.flatnonzero(~ends)
        return ended, going[place(self.sentence[going]) < size]

    def grow(self, alive: Alive, chosen: np.ndarray) -> Alive:
        """The chosen candidates as hypotheses."""
        return alive.grow(self.parent[chosen], self.token[chosen], self.logprob[chosen])

    def stuck(self, rows: int) -> np.ndarray:
        """The rows that have no continuation at all."""
        return np.flatnonzero(np.bincount(self.parent, minlength=rows) == 0)


def rank(alive: Alive, logprobs_RV: Tensor, size: int) -> Candidates:
    """All candidates ``select`` may need; of equals the earlier parent's, then the lower token.

    One row can give at most ``size`` that go on and one that ends.
    """
    top, index = highest(logprobs_RV, size + 1)
    values, tokens = read(top), index.cpu().numpy()
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


def place(groups: np.ndarray) -> np.ndarray:
    """0, 1, 2, ... within each run of equal numbers; ``groups`` is sorted."""
    sizes = np.bincount(groups)
    return np.arange(len(groups)) - (sizes.cumsum() - sizes)[groups]


def look(state: State, alive: Alive) -> Alive:
    """Add where the last step looked to what each hypothesis has covered."""
    if not isinstance(state, CoverageState):
        raise BadInput("a coverage penalty needs attention weights, and this model gives none")
    weights_RS = state.attention().float().cpu().numpy()
    if alive.coverage_RS is None:
        return replace(alive, coverage_RS=weights_RS)
    source = weights_RS.shape[1]  # may shrink when the row with the longest source leaves
    return replace(alive, coverage_RS=alive.coverage_RS[:, :source] + weights_RS)
