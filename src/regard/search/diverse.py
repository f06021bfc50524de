"""Diverse beam search (Vijayakumar et al., 2016, arXiv:1610.02424): beams that avoid each other."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.ground.checks import check_number, check_whole
from regard.ground.errors import BadInput, shown
from regard.search.beam import Beam
from regard.search.beam_rules import WIDEST
from regard.search.candidates import Candidates, concatenate, rank
from regard.search.constraints import Constraints, restrict
from regard.search.host_beam import HostBeam, add_coverage
from regard.search.hypothesis import ActiveHypotheses, Hypothesis
from regard.search.step import Search, SearchState, feed, select_rows, to_host


@dataclass(frozen=True)
class Diverse(Search):
    """``groups`` beams per sentence, which together return ``beam.best`` hypotheses.

    At each step the groups select one after the other. A token costs a group ``strength`` for every
    time that an earlier group has selected it at this step (Hamming diversity), and these penalties
    add up along a hypothesis. They steer the beams; scores are those of ``beam``. Each group ends
    by itself, as a beam does.

    The best hypotheses of all groups are returned before the second best of any, none of them
    twice, in the order of their scores. One group is the beam itself, and so are many with strength
    0. The paper's B hypotheses are ``groups * beam.size``.
    """

    beam: Beam
    groups: int = 4
    strength: float = 0.5

    def __post_init__(self) -> None:
        if not isinstance(self.beam, Beam):
            raise BadInput(f"diverse search needs a Beam, not {shown(self.beam)}")
        check_whole("groups", self.groups, 1, WIDEST)
        check_number("a diversity", self.strength)
        if not 0 <= self.strength < math.inf:
            raise BadInput(f"a diversity must be at least 0 and finite, not {self.strength}")

    @property
    def needs_attention(self) -> bool:
        """For the coverage penalty."""
        return self.beam.needs_attention

    @property
    def formula(self) -> str:
        """The score in use; n is the number of tokens, EOS included."""
        return self.beam.formula

    @torch.inference_mode()
    def __call__(
        self,
        state: SearchState,
        constraints: Constraints,
        prefixes: Sequence[Sequence[int]] | None = None,
        ids: Sequence[int] | None = None,
    ) -> list[list[Hypothesis]]:
        """See ``Search``. Group g of sentence i is number ``i * groups + g``."""
        beam, host, sentences = self.beam, HostBeam(self.beam), state.rows
        begun = None if prefixes is None else [one for one in prefixes for _ in range(self.groups)]
        constraints, each = constraints.repeated(sentences, self.groups), sentences * self.groups
        longest_B, forced_BL = constraints.longest_of(each), constraints.forced(begun, each)
        select_rows(state, np.repeat(np.arange(sentences), self.groups))
        results = host.new_finished(each)
        alive, penalty_R = ActiveHypotheses.begin(constraints.bos_of(each)), np.zeros(each)
        while len(alive):
            logprobs_RV = feed(state, alive.last_R)
            looked = add_coverage(state, alive) if beam.needs_attention else alive
            restrict(logprobs_RV, alive, constraints, forced_BL, beam.no_repeat)
            candidates, penalty = self.rank(alive, penalty_R, logprobs_RV, constraints.eos)
            host.store_stuck(alive, candidates, results)
            alive, going = host.advance(looked, candidates, constraints.eos, longest_B, results)
            penalty_R = penalty[going]
            if len(alive):
                select_rows(state, candidates.parent[going])
        found = results.ranked(beam.best)
        return [
            round_robin(found[start : start + self.groups], beam.best, beam.sort_key)
            for start in range(0, each, self.groups)
        ]

    def rank(
        self, alive: ActiveHypotheses, penalty_R: np.ndarray, logprobs_RV: Tensor, eos: int
    ) -> tuple[Candidates, np.ndarray]:
        """The candidates of all groups, and the penalty of each."""
        sentence_R, group_R = np.divmod(alive.sentence_R, self.groups)
        chosen_BV = logprobs_RV.new_zeros(int(sentence_R[-1]) + 1, logprobs_RV.shape[1])
        parts = []
        for group in np.unique(group_R):
            rows = np.flatnonzero(group_R == group)
            penalised = replace(alive, total_R=alive.total_R - penalty_R).take(rows)
            costly_RV = logprobs_RV[rows] - self.strength * chosen_BV[sentence_R[rows]]
            part = rank(penalised, costly_RV, self.beam.size)
            parts.append(replace(part, parent=rows[part.parent]))
            chosen = np.concatenate(part.select(self.beam.size, eos))
            _count(chosen_BV, part.sentence[chosen] // self.groups, part.token[chosen])
        ranked = concatenate(parts)
        logprob = to_host(logprobs_RV[ranked.parent, ranked.token]).astype(np.float64)
        penalty = penalty_R[ranked.parent] + logprob - ranked.logprob
        return replace(ranked, logprob=logprob), penalty


def _count(chosen_BV: Tensor, sentence: np.ndarray, token: np.ndarray) -> None:
    at = torch.from_numpy(np.stack([sentence, token])).to(chosen_BV.device)
    chosen_BV.index_put_((at[0], at[1]), chosen_BV.new_ones(()), accumulate=True)


def round_robin(
    groups: Sequence[Sequence[Hypothesis]], best: int, sort_key: Callable[[Hypothesis], Any]
) -> list[Hypothesis]:
    """Up to ``best`` hypotheses of the groups: one of every group before a second of any.

    A group skips hypotheses that were selected already. If a round has too many, the first by
    ``sort_key`` are taken.
    """
    left = [iter(group) for group in groups]
    given: list[Hypothesis] = []
    while len(given) < best:
        offered: list[Hypothesis] = []
        for group in left:
            known = {(one.tokens, one.finished) for one in given + offered}
            offered += islice((one for one in group if (one.tokens, one.finished) not in known), 1)
        if not offered:
            break
        given += sorted(offered, key=sort_key)[: best - len(given)]
    return sorted(given, key=sort_key)
