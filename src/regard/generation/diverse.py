"""Diverse beam search (Vijayakumar et al., 2016, arXiv:1610.02424): beams that avoid each other."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
import torch
from torch import Tensor

from regard.core.checks import check_number, check_whole
from regard.core.errors import BadInput
from regard.generation.beam import Beam, HostBeam, check_beam
from regard.generation.beam_rules import WIDEST
from regard.generation.candidates import Candidates, concatenate, rank
from regard.generation.hypothesis import ActiveHypotheses, Hypothesis
from regard.generation.step import Search, SearchBatch, to_host


@dataclass(frozen=True)
class Diverse(Search):
    """Diverse beam search: ``groups`` beams per sentence, which return ``beam.best`` hypotheses.

    At each step the groups select one after the other. A group pays a penalty of ``strength`` for a
    token each time an earlier group has selected it at this step (Hamming diversity), and penalties
    add up along a hypothesis. They rank candidates only; the scores of results follow ``beam``.
    Each group ends by itself, as a beam does.

    The best hypotheses of all groups are returned before the second best of any, without
    duplicates, in the order of their scores. One group, or a strength of 0, gives the beam itself.
    The paper's B hypotheses are ``groups * beam.size``.
    """

    beam: Beam
    groups: int = 4
    strength: float = 0.5

    def __post_init__(self) -> None:
        check_beam(self.beam, "diverse search")
        check_whole("groups", self.groups, 1, WIDEST)
        check_number("a diversity", self.strength)
        if not 0 <= self.strength < math.inf:
            raise BadInput(f"a diversity must be at least 0 and finite, not {self.strength}")

    def __str__(self) -> str:
        return f"{self.groups} groups of diversity {self.strength:g}, each a {self.beam}"

    @property
    def needs_attention(self) -> bool:
        return self.beam.needs_attention

    @property
    def formula(self) -> str:
        """Formula of the score; n is the number of tokens, EOS included."""
        return self.beam.formula

    def search(self, batch: SearchBatch) -> list[list[Hypothesis]]:
        hypotheses, count = GroupedBeams(self).search(batch.repeated(self.groups)), self.groups
        sentences = (hypotheses[at : at + count] for at in range(0, len(hypotheses), count))
        return [round_robin(groups, self.beam.best, self.beam.sort_key) for groups in sentences]


class GroupedBeams(HostBeam):
    """Beams of all groups; ``penalty_R`` holds the penalties of active hypotheses."""

    def __init__(self, diverse: Diverse):
        super().__init__(diverse.beam)
        self.groups, self.strength = diverse.groups, diverse.strength
        self.penalty_R: np.ndarray | None = None
        self.penalty = np.zeros(0)  # of the candidates of a step

    def rank(self, alive: ActiveHypotheses, logprobs_RV: Tensor) -> Candidates:
        size, constraints = self.rules.size, self.batch.constraints
        penalty_R = np.zeros(len(alive)) if self.penalty_R is None else self.penalty_R
        sentence_R, group_R = np.divmod(alive.sentence_R, self.groups)
        chosen_BV = logprobs_RV.new_zeros(int(sentence_R[-1]) + 1, logprobs_RV.shape[1])
        parts = []
        for group in np.unique(group_R):
            rows = np.flatnonzero(group_R == group)
            penalised = replace(alive, total_R=alive.total_R - penalty_R).take(rows)
            costly_RV = logprobs_RV[rows] - self.strength * chosen_BV[sentence_R[rows]]
            part = rank(penalised, costly_RV, size, constraints)
            parts.append(replace(part, parent=rows[part.parent]))
            chosen = np.concatenate(part.select(size, constraints))
            at = part.sentence[chosen] // self.groups, part.token[chosen]
            index = tuple(torch.from_numpy(values).to(chosen_BV.device) for values in at)
            chosen_BV.index_put_(index, chosen_BV.new_ones(()), accumulate=True)
        ranked = concatenate(parts)
        logprob = to_host(logprobs_RV[ranked.parent, ranked.token]).astype(np.float64)
        self.penalty = penalty_R[ranked.parent] + logprob - ranked.logprob
        return replace(ranked, logprob=logprob)

    def advance(
        self, alive: ActiveHypotheses, candidates: Candidates
    ) -> tuple[ActiveHypotheses, np.ndarray]:
        alive, going = super().advance(alive, candidates)
        self.penalty_R = self.penalty[going]
        return alive, going


SortKey = Callable[[Hypothesis], tuple[bool, float]]


def round_robin(
    groups: Sequence[Sequence[Hypothesis]], best: int, sort_key: SortKey
) -> list[Hypothesis]:
    """Select up to ``best`` hypotheses: one of every group before a second of any.

    A group skips hypotheses that were selected already. If a round has too many, the first by
    ``sort_key`` are selected.
    """
    left = [iter(group) for group in groups]
    selected: list[Hypothesis] = []
    while len(selected) < best:
        offered: list[Hypothesis] = []
        for group in left:
            seen = {(each.tokens, each.finished) for each in selected + offered}
            offered += islice(
                (each for each in group if (each.tokens, each.finished) not in seen), 1
            )
        if not offered:
            break
        selected += sorted(offered, key=sort_key)[: best - len(selected)]
    return sorted(selected, key=sort_key)
