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
from regard.generation.hypothesis import Hypothesis
from regard.generation.step import Search, SearchBatch, feed, select_rows, to_host

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
        if batch.constraints.eos < 0:
            raise BadInput("exact search needs a vocabulary with an end token")
        ends, best = batch.constraints.ends, self.first(batch.ids)
        rules, token_R = batch.rules(Repetition(self.no_repeat)), batch.first_tokens
        prefixes = Prefixes(len(best))
        given_up_B = np.zeros(len(best), dtype=bool)
        while len(token_R):
            logprobs_RV = feed(batch.state, token_R)
            rows = torch.from_numpy(prefixes.sentence_R).to(token_R.device), prefixes.length
            logprobs_RV = rules.logprobs(logprobs_RV, batch.state.normaliser, *rows)
            for eos in ends:
                self.end(prefixes, eos, to_host(logprobs_RV[:, eos]), best)
            promising_RV = self.promising(prefixes, logprobs_RV, batch.longest_B, best)
            promising_RV[:, ends] = False

            count_R = promising_RV.sum(1).cpu().numpy()
            given_up_B |= np.bincount(prefixes.sentence_R, count_R, len(best)) > self.max_active
            promising_RV[given_up_B[prefixes.sentence_R]] = False
            parent_R, token_R = at = promising_RV.nonzero(as_tuple=True)
            prefixes.grow(parent_R.cpu().numpy(), token_R.cpu().numpy(), to_host(logprobs_RV[at]))
            if len(token_R):
                select_rows(batch.state, parent_R)
                rules.select_rows(parent_R)
                rules.advance(token_R)
        pairs = zip(best, given_up_B, strict=True)
        return [[] if optimum is None or given_up else [optimum] for optimum, given_up in pairs]

    def first(self, ids: Sequence[int]) -> Optima:
        """Known hypothesis of each sentence, rescored; None if it is unfinished or unknown."""
        known = (self.known.get(number) for number in ids)
        length = self.length, self.alpha
        return [rescore([hyp], *length)[0] if hyp and hyp.finished else None for hyp in known]

    def end(self, prefixes: "Prefixes", eos: int, logprob_R: np.ndarray, best: Optima) -> None:
        """Update ``best`` with the prefixes that end at this step."""
        total_R, sentence_R = prefixes.total_R + logprob_R, prefixes.sentence_R
        score_R = normalised(total_R, prefixes.length + 1, self.length, self.alpha)
        for row in np.flatnonzero(score_R > _scores(best)[sentence_R]).tolist():
            sentence, score = sentence_R[row], float(score_R[row])
            before = best[sentence]
            if before is None or score > before.score:
                tokens = tuple(prefixes.tokens_RL[row].tolist())
                each = *prefixes.logprobs_RL[row].tolist(), float(logprob_R[row])
                best[sentence] = Hypothesis(tokens, float(total_R[row]), score, each, True)

    def promising(
        self, prefixes: "Prefixes", logprobs_RV: Tensor, longest_B: np.ndarray, best: Optima
    ) -> Tensor:
        """Mask of the continuations that may still lead to a better score."""
        longest_R, score_R = longest_B[prefixes.sentence_R], _scores(best)[prefixes.sentence_R]
        needed_R = logprob_to_beat(score_R, longest_R, self.length, self.alpha) - prefixes.total_R
        needed_R[longest_R == prefixes.length + 1] = np.inf  # no place is left for EOS
        return logprobs_RV > torch.from_numpy(needed_R).to(logprobs_RV.device)[:, None]


class Prefixes:
    """Active prefixes of one length."""

    def __init__(self, sentences: int):
        self.sentence_R, self.total_R = np.arange(sentences), np.zeros(sentences)
        self.tokens_RL, self.logprobs_RL = np.zeros((sentences, 0), int), np.zeros((sentences, 0))

    @property
    def length(self) -> int:
        """Number of tokens so far."""
        return self.tokens_RL.shape[1]

    def grow(self, parent_R: np.ndarray, token_R: np.ndarray, logprob_R: np.ndarray) -> None:
        """Replace row i by row ``parent_R[i]`` with one more token."""
        self.sentence_R, self.total_R = (
            self.sentence_R[parent_R],
            self.total_R[parent_R] + logprob_R,
        )
        self.tokens_RL = np.column_stack([self.tokens_RL[parent_R], token_R])
        self.logprobs_RL = np.column_stack([self.logprobs_RL[parent_R], logprob_R])


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
