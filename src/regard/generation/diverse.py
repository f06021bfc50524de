"""Diverse beam search (Vijayakumar et al., 2016, arXiv:1610.02424): beams that avoid each other."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice

import torch
from torch import Tensor

from regard.core.checks import check_number, check_whole
from regard.core.errors import BadInput
from regard.generation.beam import Beam, check_beam
from regard.generation.beam_loop import TOKEN, TOTAL, BeamLoop, by_rank
from regard.generation.beam_rules import WIDEST
from regard.generation.candidates import topk
from regard.generation.hypothesis import Hypothesis
from regard.generation.step import Search, SearchBatch


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
        hypotheses, count = GroupedBeams(self, batch.repeated(self.groups)).run(), self.groups
        sentences = (hypotheses[at : at + count] for at in range(0, len(hypotheses), count))
        return [round_robin(groups, self.beam.best, self.beam.sort_key) for groups in sentences]


KEY, PENALTY = TOTAL + 1, TOTAL + 2  # of a continuation: what ranks it, its part of penalties


class GroupedBeams(BeamLoop):
    """Beams of all groups; the groups of a sentence are adjacent."""

    def __init__(self, diverse: Diverse, batch: SearchBatch):
        super().__init__(diverse.beam, batch)
        self.groups, self.strength = diverse.groups, diverse.strength

    def continuations(self, logprobs_RV: Tensor) -> tuple[Tensor, Tensor]:
        sentences = len(self.longest_B) // self.groups
        chosen_SV = logprobs_RV.new_zeros(sentences, logprobs_RV.shape[1])
        in_groups_R = self.slot_R // self.rules.size
        sentence_R, group_R = in_groups_R // self.groups, in_groups_R % self.groups
        every_group, possible = list[Tensor](), list[Tensor]()
        for group in range(self.groups):
            rows_R, device = (group_R == group).nonzero()[:, 0], logprobs_RV.device
            own_RV = logprobs_RV[rows_R.to(device)]
            costly_RV = own_RV - self.strength * chosen_SV[sentence_R[rows_R].to(device)]
            costly_RN, tokens_RN = topk(costly_RV, self.count)
            table = [tokens_RN, own_RV.gather(1, tokens_RN), costly_RN]
            in_slots = self.in_slots(table, self.slot_R[rows_R])
            ranked = self._ranked(in_slots[:, group :: self.groups], group)
            self._count(ranked, chosen_SV)
            every_group.append(ranked)
            possible.append(in_slots[2, group :: self.groups, :, 0] > -torch.inf)
        return torch.stack(every_group, 2).flatten(1, 2), torch.stack(possible, 1).flatten(0, 1)

    def _ranked(self, columns: Tensor, group: int) -> Tensor:
        """Continuations of one group of each sentence, ranked by log p minus all penalties."""
        tokens_SWN, logprobs_SWN, costly_SWN = columns
        total_SW1 = self.total_BW[group :: self.groups, :, None]
        penalty_BW = self.grown[-1][PENALTY] if self.grown else torch.zeros_like(self.total_BW)
        penalty_SW1 = penalty_BW[group :: self.groups, :, None]
        slot_SWN = self.slot_W[:, None].expand_as(tokens_SWN)
        key_SWN = total_SW1 - penalty_SW1 + costly_SWN
        penalties_SWN = (penalty_SW1 + logprobs_SWN - costly_SWN).nan_to_num(0.0)  # empty: NaN
        places = tokens_SWN, slot_SWN, logprobs_SWN
        columns = torch.stack([*places, total_SW1 + logprobs_SWN, key_SWN, penalties_SWN])
        return by_rank(columns, KEY)

    def _count(self, ranked: Tensor, chosen_SV: Tensor) -> None:
        """Count the tokens of continuations that end or stay active."""
        ends_SN = self.constraints.is_end(ranked[TOKEN])
        rank_N = torch.arange(ranked.shape[2])
        going_SN = (~ends_SN).cumsum(1) <= self.rules.size
        chosen_SN = torch.where(ends_SN, rank_N < self.rules.size, going_SN)
        chosen_SN &= ranked[KEY] > -torch.inf
        tokens_SN = ranked[TOKEN].masked_fill(~chosen_SN, 0).long().to(chosen_SV.device)
        chosen_SV.scatter_add_(1, tokens_SN, chosen_SN.to(chosen_SV))


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
