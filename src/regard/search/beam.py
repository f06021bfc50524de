"""Beam search: at every step the k best hypotheses go on, and those that end are set aside."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, cast

import numpy as np
import torch

from regard.ground.checks import check_number, check_whole
from regard.ground.errors import BadInput, shown
from regard.search.candidates import Candidates, rank
from regard.search.constraints import Constraints, restrict
from regard.search.device_beam import RacingState, fits_device, search_on_device
from regard.search.finished import FinishedHypotheses
from regard.search.hypothesis import ActiveHypotheses, Hypothesis
from regard.search.length_penalty import (
    Length,
    check_length_penalty,
    coverage_term,
    formula,
    logprob_to_beat,
    normalised,
)
from regard.search.step import CoverageState, SearchState, feed, select_rows

Stop = Literal["default", "transformers", "transformers-early", "transformers-never"]
# When a sentence is over by transformers' rules: early_stopping=False, True and "never".
STOPS: dict[Stop, str] = {
    "default": "",
    "transformers": "{k} are found and no {score} alive, at its n now, is above the last",
    "transformers-early": "{k} are found",
    "transformers-never": "{k} are found and no {score} alive, at the longest n, is above the last",
}
WIDEST = 10_000  # hypotheses of a sentence


@dataclass(frozen=True)
class Beam:
    """``size`` hypotheses go on per sentence; the ``best`` come back.

    At each step all continuations of a sentence are ranked by log p. Those among the first ``size``
    that end are set aside; the first ``size`` that do not end go on. A sentence is over when

    - ``finished`` hypotheses have been set aside (by default ``size``, or ``best`` if more);
    - or nothing alive can still be among the best (``early``): no log p is above what is needed
      ``logprob_to_beat`` the last of them, and the coverage term is at most 0;
    - or its limit is reached. Then the hypotheses alive, unfinished, fill the places that finished
      ones leave among the best. One that nothing can be added to is unfinished as well.

    With another ``stop`` it is over when ``generate`` of transformers 5 says so, given ``size`` as
    num_beams (of 1: greedy search), ``best`` as num_return_sequences, ``length="power"``, ``alpha``
    as length_penalty and ``no_repeat`` as no_repeat_ngram_size; ``formula`` says when. Then at the
    limit the first ``size`` continuations count as found, whether they end or not. In
    ``Constraints`` max_length is ``longest + 1`` (it counts BOS), max_new_tokens ``longest``,
    min_length ``shortest``, forced_eos_token_id ``must_end``, single tokens of bad_words_ids
    ``forbidden``.
    Where it would fill its list up with copies of score -1e9, fewer come back.

    Scores follow ``formula``, where n counts the tokens, EOS included and BOS not. The length rule
    and the coverage penalty rank what was set aside; they do not steer the beam. With a
    ``coverage``, be it 0, hypotheses keep their coverage term. With ``no_repeat`` no run of that
    many tokens occurs twice in a hypothesis.
    """

    size: int = 5
    best: int = 1
    length: Length = "gnmt"
    alpha: float = 0.6
    coverage: float | None = None
    finished: int | None = None
    no_repeat: int = 0
    early: bool = True
    stop: Stop = "default"

    def __post_init__(self) -> None:
        if self.stop not in [*STOPS]:
            raise BadInput(f"stop must be one of {', '.join(STOPS)}, not {shown(self.stop)}")
        check_whole("the size of a beam", self.size, 1, WIDEST)
        check_whole("best", self.best, 1, WIDEST)
        check_whole("no_repeat", self.no_repeat, 0)
        if self.finished is not None:
            check_whole("finished", self.finished, 1)
        if self.follows_transformers and (self.finished is not None or not self.early):
            raise BadInput(f"finished and early mean nothing where the stop is {self.stop!r}")
        if self.follows_transformers and self.best > self.size:
            raise BadInput(
                f"best must be at most the size of the beam ({self.size}), as in transformers, "
                f"not {self.best}"
            )
        if self.enough < self.best:
            raise BadInput(f"finished must be at least best ({self.best}), not {self.enough}")
        check_length_penalty(
            self.length, self.alpha, lowest=-math.inf if self.follows_transformers else 0.0
        )
        check_number("coverage", self.coverage or 0.0)
        if not 0 <= (self.coverage or 0.0) < math.inf:
            raise BadInput(f"coverage must be finite and at least 0, not {self.coverage}")

    @property
    def follows_transformers(self) -> bool:
        """Whether the rules of transformers are followed."""
        return self.stop != "default"

    @property
    def needs_attention(self) -> bool:
        """Whether it needs to know where the model looks."""
        return self.coverage is not None

    @property
    def enough(self) -> float:
        """Hypotheses found at which a sentence is over, whatever is alive."""
        if self.stop == "default":
            return max(self.size, self.best) if self.finished is None else self.finished
        return self.size if self.stop == "transformers-early" or self.size == 1 else math.inf

    @property
    def beaten(self) -> int:
        """How many found ones must be beaten to be found later."""
        return self.size if self.follows_transformers else self.best

    @property
    def bounds_at_current_length(self) -> bool:
        """Whether what is alive is weighed at its length now, not at the longest it may reach."""
        return self.stop == "transformers" or self.alpha < 0

    @property
    def formula(self) -> str:
        """The score in use; n is the number of tokens, EOS included and BOS not."""
        plain = formula(self.length, self.alpha, self.coverage)
        over = STOPS[self.stop].format(k=self.size, score=formula(self.length, self.alpha))
        return f"{plain}, over when {over}" if over else plain

    @torch.inference_mode()
    def __call__(
        self,
        state: SearchState,
        constraints: Constraints,
        prefixes: Sequence[Sequence[int]] | None = None,
        ids: Sequence[int] | None = None,
    ) -> list[list[Hypothesis]]:
        """See ``Search``."""
        if fits_device(self, state, constraints, prefixes):
            return search_on_device(self, cast(RacingState, state), constraints, state.rows)
        longest_B, forced_BL = (
            constraints.longest_of(state.rows),
            constraints.forced(prefixes, state.rows),
        )
        results = self.new_finished(state.rows)
        alive = ActiveHypotheses.begin(constraints.bos_of(state.rows))
        while len(alive):
            logprobs_RV = feed(state, alive.last_R)
            looked = add_coverage(state, alive) if self.needs_attention else alive
            restrict(logprobs_RV, alive, constraints, forced_BL, self.no_repeat)
            candidates = rank(alive, logprobs_RV, self.size)
            self.store_stuck(alive, candidates, results)
            alive, going = self.advance(looked, candidates, constraints.eos, longest_B, results)
            if len(alive):
                select_rows(state, candidates.parent[going])
        return results.ranked(self.best)

    def new_finished(self, sentences: int) -> FinishedHypotheses:
        """Where hypotheses are set aside."""
        return FinishedHypotheses(sentences, self.beaten)

    def store_stuck(
        self, alive: ActiveHypotheses, candidates: Candidates, results: FinishedHypotheses
    ) -> None:
        """Set aside what nothing can be added to."""
        self.store(alive.take(candidates.stuck(len(alive))), results, False, counts=False)

    def advance(
        self,
        alive: ActiveHypotheses,
        candidates: Candidates,
        eos: int,
        longest_B: np.ndarray,
        results: FinishedHypotheses,
    ) -> tuple[ActiveHypotheses, np.ndarray]:
        """Set aside what ends here; the hypotheses that go on, and which candidates they are."""
        ended, going = candidates.select(self.size, eos)
        finished, grown = candidates.grow(alive, ended), candidates.grow(alive, going)
        at_limit = longest_B[grown.sentence_R] == grown.length
        first = candidates.place[going] < self.size
        stopped = at_limit & first if self.follows_transformers else at_limit
        self.store(finished, results, True, counts=True)
        self.store(grown.take(stopped), results, False, counts=self.follows_transformers)
        on = np.flatnonzero(~at_limit & ~self.is_done(grown, longest_B, results))
        return grown.take(on), going[on]

    def store(
        self, rows: ActiveHypotheses, results: FinishedHypotheses, finished: bool, counts: bool
    ) -> None:
        """Score these rows by ``formula`` and put them on their shelf."""
        if not len(rows):
            return
        scores_R = normalised(rows.total_R, rows.length, self.length, self.alpha)
        terms_R: list[float] | list[None] = [None] * len(rows)
        if rows.coverage_RS is not None and self.coverage is not None:
            terms_R = [coverage_term(one) for one in rows.coverage_RS]
            scores_R = scores_R + self.coverage * np.array(terms_R)
        pairs = zip(scores_R.tolist(), terms_R, strict=True)
        hypotheses = [
            rows.hypothesis(row, finished, score, term) for row, (score, term) in enumerate(pairs)
        ]
        results.add(rows.sentence_R, hypotheses, counts)

    def sort_key(self, one: Hypothesis) -> tuple[bool, float]:
        """What results are sorted by: the unfinished last, unless they count as found."""
        return not (one.finished or self.follows_transformers), -one.score

    def is_done(
        self, rows: ActiveHypotheses, longest_B: np.ndarray, results: FinishedHypotheses
    ) -> np.ndarray:
        """Whether the sentence of each row needs no further step."""
        sentence_R = rows.sentence_R
        enough = results.count_B[sentence_R] >= self.enough
        if not self.early:
            return enough
        n_R = rows.length if self.bounds_at_current_length else longest_B[sentence_R]
        needed_R = logprob_to_beat(results.bar_B[sentence_R], n_R, self.length, self.alpha)
        return enough | (best_totals(rows, len(longest_B)) <= needed_R)


def best_totals(rows: ActiveHypotheses, sentences: int) -> np.ndarray:
    """The highest log p in the sentence of each row."""
    highest_B = np.full(sentences, -np.inf)
    np.maximum.at(highest_B, rows.sentence_R, rows.total_R)
    return highest_B[rows.sentence_R]


def add_coverage(state: SearchState, alive: ActiveHypotheses) -> ActiveHypotheses:
    """Add where the last step looked to what each hypothesis has covered."""
    if not isinstance(state, CoverageState):
        raise BadInput("a coverage penalty needs attention weights, and this model gives none")
    weights_RS = state.attention().float().cpu().numpy()
    if alive.coverage_RS is None:
        return replace(alive, coverage_RS=weights_RS)
    source = weights_RS.shape[1]  # may shrink when the row with the longest source leaves
    return replace(alive, coverage_RS=alive.coverage_RS[:, :source] + weights_RS)
