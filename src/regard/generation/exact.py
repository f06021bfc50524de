"""Exact search: the hypothesis with the highest score, by branch and bound.

Stahlberg & Byrne (2019, arXiv:1908.10090) search depth first; here hypotheses of one length are
expanded together, level by level. Bound and result are the same.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from regard.core.checks import check_whole
from regard.core.errors import BadInput
from regard.generation import beam_rules
from regard.generation.beam_rules import Length, logprob_to_beat, normalised, rescore
from regard.generation.constraints import Repetition
from regard.generation.hypothesis import ActiveHypotheses, Hypothesis
from regard.generation.step import Search, SearchBatch, select_rows, to_host

Optima = list[Hypothesis | None]


@dataclass(frozen=True)
class Exact(Search):
    """Exact search: the finished hypothesis with the highest score, or none.

    At each step every prefix that may still lead to a better score than the best so far stays
    active, so a result is proven, up to rounding. A sentence gets an empty list if more than
    ``max_active`` prefixes would stay active, when the search gives up, or if nothing finishes.

    ``known`` holds, by sentence id, a hypothesis of another search under the same constraints, as
    the first bound; a good one saves work. Without a length penalty the bound is tight; with one,
    every prefix is bounded as if it could grow to the longest n allowed.
    """

    length: Length = "none"
    alpha: float = 0.6
    no_repeat: int = 0
    max_active: int = 1_000
    known: Mapping[int, Hypothesis] = field(default_factory=dict, repr=False, hash=False)

    def __post_init__(self) -> None:
        beam_rules.check_length_penalty(self.length, self.alpha)
        check_whole("no_repeat", self.no_repeat, 0)
        check_whole("max_active", self.max_active, 1)

    def __str__(self) -> str:
        return "exact search"

    @property
    def formula(self) -> str:
        """Formula of the score; n is the number of tokens, EOS included."""
        return beam_rules.formula(self.length, self.alpha)

    def search(self, batch: SearchBatch) -> list[list[Hypothesis]]:
        ends, best = batch.constraints.ends, self.first(batch.ids)
        alive = batch.initial_hypotheses()
        if batch.constraints.eos < 0:
            raise BadInput("exact search needs a vocabulary with an end token")
        given_up_B = np.zeros(len(best), dtype=bool)
        while len(alive):
            logprobs_RV = batch.step(alive, Repetition(self.no_repeat))
            for eos in ends:
                self.end(alive, eos, logprobs_RV, best)
            promising_RV = self.promising(alive, logprobs_RV, batch.longest_B, best)
            promising_RV[:, ends] = False

            count_R = promising_RV.sum(1).cpu().numpy()
            given_up_B |= np.bincount(alive.sentence_R, count_R, len(best)) > self.max_active
            promising_RV[given_up_B[alive.sentence_R]] = False
            rows, tokens = at = promising_RV.nonzero(as_tuple=True)
            parents = rows.cpu().numpy()
            alive = alive.grow(parents, tokens.cpu().numpy(), to_host(logprobs_RV[at]))
            if len(alive):
                select_rows(batch.state, parents)
        pairs = zip(best, given_up_B, strict=True)
        return [[] if optimum is None or given_up else [optimum] for optimum, given_up in pairs]

    def first(self, ids: Sequence[int]) -> Optima:
        """Known hypothesis of each sentence, rescored; None if it is unfinished or unknown."""
        known = (self.known.get(number) for number in ids)
        length = self.length, self.alpha
        return [rescore([hyp], *length)[0] if hyp and hyp.finished else None for hyp in known]

    def end(self, alive: ActiveHypotheses, eos: int, logprobs_RV: Tensor, best: Optima) -> None:
        """Update ``best`` with the hypotheses that end at this step."""
        every_R = np.arange(len(alive))
        ended = alive.grow(every_R, np.full(len(alive), eos), to_host(logprobs_RV[:, eos]))
        score_R = normalised(ended.total_R, ended.length, self.length, self.alpha)
        for row in np.flatnonzero(score_R > _scores(best)[alive.sentence_R]).tolist():
            sentence, score = alive.sentence_R[row], float(score_R[row])
            before = best[sentence]
            if before is None or score > before.score:
                best[sentence] = ended.hypothesis(row, finished=True, score=score)

    def promising(
        self, alive: ActiveHypotheses, logprobs_RV: Tensor, longest_B: np.ndarray, best: Optima
    ) -> Tensor:
        """Mask of the continuations that may still lead to a better score."""
        longest_R, score_R = longest_B[alive.sentence_R], _scores(best)[alive.sentence_R]
        needed_R = logprob_to_beat(score_R, longest_R, self.length, self.alpha) - alive.total_R
        needed_R[longest_R == alive.length + 1] = np.inf  # no place is left for EOS
        return logprobs_RV > torch.from_numpy(needed_R).to(logprobs_RV.device)[:, None]


def _scores(best: Optima) -> np.ndarray:
    return np.array([-np.inf if hypothesis is None else hypothesis.score for hypothesis in best])


@dataclass(frozen=True)
class SearchErrors:
    """Search errors of another search, counted over sentences with a proven optimum."""

    proven: int
    missed: int
    empty: int  # optima without a single token
    gap: float  # mean difference of scores, over finished hypotheses that missed


def search_errors(
    hypotheses: Sequence[Hypothesis], optima: Sequence[Sequence[Hypothesis]]
) -> SearchErrors:
    """Search errors of ``hypotheses``, one per sentence, against the results of ``Exact``."""
    pairs = [(hyp, best[0]) for hyp, best in zip(hypotheses, optima, strict=True) if best]
    # Equal tokens whose score is rounded differently are not an error.
    missed = [
        (hyp, best)
        for hyp, best in pairs
        if not hyp.finished or (hyp.tokens != best.tokens and hyp.score < best.score)
    ]
    gaps = [best.score - hyp.score for hyp, best in missed if hyp.finished]
    empty, gap = sum(not best.tokens for _, best in pairs), sum(gaps) / max(len(gaps), 1)
    return SearchErrors(len(pairs), len(missed), empty, gap)
