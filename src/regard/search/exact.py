"""Exact search: the best hypothesis there is, by branch and bound (Stahlberg & Byrne, 2019).

The paper (arXiv:1908.10090) searches depth first; here hypotheses of one length are expanded
together, level by level. Bound and result are the same.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from regard.ground.checks import check_whole
from regard.ground.errors import BadInput
from regard.search.beam_rules import (
    Length,
    check_length_penalty,
    formula,
    logprob_to_beat,
    normalised,
    rescore,
)
from regard.search.constraints import Repetition
from regard.search.hypothesis import ActiveHypotheses, Hypothesis
from regard.search.step import Search, SearchBatch, select_rows, to_host


@dataclass(frozen=True)
class Exact(Search):
    """The one finished hypothesis with the highest score, or none.

    At each step every prefix stays active that may still lead to a better score than the best so
    far. So a result is proven, up to rounding. A sentence gets an empty list when more than
    ``widest`` prefixes would stay active, where the search gives up, or when nothing finishes.

    ``known`` has, by sentence id, a hypothesis of another search under the same constraints, as the
    first bound. It only saves work, the more the better it is. Without a length penalty the bound
    is tight; with one, every prefix is bounded as if it could grow to the longest n allowed.
    """

    length: Length = "none"
    alpha: float = 0.6
    no_repeat: int = 0
    widest: int = 1_000
    known: Mapping[int, Hypothesis] = field(default_factory=dict, repr=False, hash=False)

    def __post_init__(self) -> None:
        check_length_penalty(self.length, self.alpha)
        check_whole("no_repeat", self.no_repeat, 0)
        check_whole("widest", self.widest, 1)

    def __str__(self) -> str:
        return "exact search"

    @property
    def formula(self) -> str:
        """The score in use; n is the number of tokens, EOS included."""
        return formula(self.length, self.alpha)

    def search(self, batch: SearchBatch) -> list[list[Hypothesis]]:
        eos, best, alive = batch.constraints.eos, self.first(batch.ids), batch.begin()
        if eos < 0:
            raise BadInput("exact search needs a vocabulary with an end token")
        given_up_B = np.zeros(len(best), dtype=bool)
        while len(alive):
            logprobs_RV = batch.step(alive, Repetition(self.no_repeat))
            self.end(alive, eos, logprobs_RV, best)
            promising_RV = self.promising(alive, logprobs_RV, batch.longest_B, best)
            promising_RV[:, eos] = False

            count_R = promising_RV.sum(1).cpu().numpy()
            given_up_B |= np.bincount(alive.sentence_R, count_R, len(best)) > self.widest
            promising_RV[given_up_B[alive.sentence_R]] = False
            rows, tokens = at = promising_RV.nonzero(as_tuple=True)
            parents = rows.cpu().numpy()
            alive = alive.grow(parents, tokens.cpu().numpy(), to_host(logprobs_RV[at]))
            if len(alive):
                select_rows(batch.state, parents)
        pairs = zip(best, given_up_B, strict=True)
        return [[] if one is None or given_up else [one] for one, given_up in pairs]

    def first(self, ids: Sequence[int]) -> list[Hypothesis | None]:
        """The known hypothesis of each sentence, rescored; unfinished ones are no bound."""
        known = [self.known.get(one) for one in ids]
        return [
            rescore([one], self.length, self.alpha)[0] if one and one.finished else None
            for one in known
        ]

    def end(
        self, alive: ActiveHypotheses, eos: int, logprobs_RV: Tensor, best: list[Hypothesis | None]
    ) -> None:
        """Update ``best`` with hypotheses that end here."""
        every_R = np.arange(len(alive))
        ended = alive.grow(every_R, np.full(len(alive), eos), to_host(logprobs_RV[:, eos]))
        score_R = normalised(ended.total_R, ended.length, self.length, self.alpha)
        for row in np.flatnonzero(score_R > _scores(best)[alive.sentence_R]).tolist():
            sentence, score = alive.sentence_R[row], float(score_R[row])
            before = best[sentence]
            if before is None or score > before.score:
                best[sentence] = ended.hypothesis(row, finished=True, score=score)

    def promising(
        self,
        alive: ActiveHypotheses,
        logprobs_RV: Tensor,
        longest_B: np.ndarray,
        best: list[Hypothesis | None],
    ) -> Tensor:
        """Which continuations may still lead to a better score."""
        longest_R, score_R = longest_B[alive.sentence_R], _scores(best)[alive.sentence_R]
        needed_R = logprob_to_beat(score_R, longest_R, self.length, self.alpha) - alive.total_R
        needed_R[longest_R == alive.length + 1] = np.inf  # no place is left for EOS
        return logprobs_RV > torch.from_numpy(needed_R).to(logprobs_RV.device)[:, None]


def _scores(best: list[Hypothesis | None]) -> np.ndarray:
    return np.array([-np.inf if one is None else one.score for one in best])


@dataclass(frozen=True)
class SearchErrors:
    """How often another search missed the optimum, among the sentences where it is proven."""

    proven: int
    missed: int
    empty: int  # optima without a single token
    gap: float  # mean difference of scores, over finished hypotheses that missed


def search_errors(
    hypotheses: Sequence[Hypothesis], optima: Sequence[Sequence[Hypothesis]]
) -> SearchErrors:
    """``hypotheses``: one hypothesis per sentence; ``optima``: the results of ``Exact``."""
    pairs = [(one, best[0]) for one, best in zip(hypotheses, optima, strict=True) if best]
    missed = [(one, best) for one, best in pairs if _is_missed(one, best)]
    gaps = [best.score - one.score for one, best in missed if one.finished]
    return SearchErrors(
        proven=len(pairs),
        missed=len(missed),
        empty=sum(not best.tokens for _, best in pairs),
        gap=sum(gaps) / len(gaps) if gaps else 0.0,
    )


def _is_missed(one: Hypothesis, best: Hypothesis) -> bool:
    """Equal tokens whose score is rounded differently are no error."""
    return not one.finished or (one.tokens != best.tokens and one.score < best.score)
