"""Token selection on the device for rows with settings of their own: greedy search and sampling.

Every row has a slot of fixed tables, which hold its settings, its random numbers and the number of
its tokens. So rows of many requests share one selection, which can be captured as a CUDA graph, and
a row gets the tokens that it would get alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from regard.core.pytree import move_tensor
from regard.generation.candidates import topk
from regard.generation.constraints import Constraints
from regard.generation.sample import draw, weights_of
from regard.generation.token_loop import TokenChoice, TokenSearch

MOST_CANDIDATES = 64  # of a row with top_k, without sorting the vocabulary
MOST_ENDS = 4  # tokens that end a text
GREEDY, PLAIN, TOP_K, SORTED = LEVELS = range(4)  # each level also selects for the lower ones
COLUMNS = ("level", "temperature", "top_k", "top_p", "shortest", "active")
LEVEL, TEMPERATURE, TOP_K_OF, TOP_P, SHORTEST, ACTIVE = range(len(COLUMNS))


@dataclass(frozen=True)
class SlotSettings:
    """Settings of one row: the search, and the constraints on its tokens."""

    search: TokenSearch
    constraints: Constraints
    shortest: int

    @property
    def fits(self) -> bool:
        """Whether the device can select the tokens; other rules need the host."""
        search, limits = self.search, self.constraints
        free = not (search.no_repeat or search.repetition.penalises or search.logit_bias)
        allowed = not (limits.forbidden or limits.must_end or limits.renormalise)
        known = search.choice is not None and len(limits.ends) <= MOST_ENDS
        return known and free and allowed

    @cached_property
    def level(self) -> int:
        """The least level of selection that the row needs."""
        choice = self.search.choice
        if choice is None or not choice.is_drawn:
            return GREEDY
        if not choice.top_k:
            return PLAIN if choice.top_p == 1 else SORTED
        return TOP_K if choice.top_k <= MOST_CANDIDATES else SORTED

    @property
    def columns(self) -> list[float]:
        """Row of the table of settings."""
        _, temperature, top_k, top_p = self.search.choice or TokenChoice()
        top_p = top_p if top_p < 1 else np.inf
        numbers = [self.level, temperature, top_k or np.inf, top_p, self.shortest, 1]
        ends = [*self.constraints.ends, *[-1] * MOST_ENDS][:MOST_ENDS]
        return [float(number) for number in (*numbers, *ends)]


class SlotTokens:
    """Token selector with tables for ``slots`` rows of at most ``capacity`` tokens."""

    def __init__(self, slots: int, capacity: int, device: torch.device):
        def table(*shape: int) -> Tensor:
            return torch.zeros(shape, dtype=torch.float64, device=device)

        self.settings_RF = table(slots, len(COLUMNS) + MOST_ENDS)
        self.settings_RF[:, TEMPERATURE] = 1.0
        self.draws_RL = table(slots, capacity)
        self.count_R = torch.zeros(slots, dtype=torch.long, device=device)
        self.chosen_R2 = table(slots, 2)  # token and log-probability of the last step

    def start(self, slot_N: Tensor, settings: Sequence[SlotSettings], draws_NL: np.ndarray) -> None:
        """Give slots to new rows, with their random numbers."""
        device = self.count_R.device
        rows = torch.tensor([each.columns for each in settings], dtype=torch.float64)
        self.settings_RF.index_copy_(0, slot_N, move_tensor(rows, device))
        self.count_R.index_fill_(0, slot_N, 0)
        if any(each.level for each in settings):
            draws = move_tensor(torch.from_numpy(draws_NL), device)
            self.draws_RL[slot_N, : draws.shape[1]] = draws

    def free(self, slot_N: Tensor) -> None:
        """Take slots from rows that have ended."""
        self.settings_RF[:, ACTIVE].index_fill_(0, slot_N, 0)
        self.settings_RF[:, LEVEL].index_fill_(0, slot_N, GREEDY)

    def active(self, rows: int) -> Tensor:
        """1 for each of the first slots that has a row, else 0."""
        return self.settings_RF[:rows, ACTIVE].long()

    def select(self, logits_RV: Tensor, level: int) -> Tensor:
        """Next token of each of the first slots, by a selection for all rows up to ``level``."""
        rows = len(logits_RV)
        settings_RF, count_R = self.settings_RF[:rows], self.count_R[:rows]
        logprobs_RV = torch.log_softmax(logits_RV.float(), dim=-1)
        self._forbid_early_ends(logprobs_RV, settings_RF, count_R)
        token_R = topk(logprobs_RV, 1)[1][:, 0]
        if level > GREEDY:
            draws_R = self.draws_RL[:rows].gather(1, count_R[:, None])[:, 0]
            for number, select in zip(range(PLAIN, level + 1), DRAWN, strict=False):
                drawn_R = select(logprobs_RV, settings_RF, draws_R)
                token_R = torch.where(settings_RF[:, LEVEL] == number, drawn_R, token_R)
        self.chosen_R2[:rows, 0] = token_R.double()
        self.chosen_R2[:rows, 1] = logprobs_RV.gather(1, token_R[:, None])[:, 0].double()
        limit = self.draws_RL.shape[1] - 1
        count_R.add_(self.active(rows)).clamp_(max=limit)
        return token_R

    def _forbid_early_ends(self, logprobs_RV: Tensor, settings_RF: Tensor, count_R: Tensor) -> None:
        ends_RC = settings_RF[:, len(COLUMNS) :].long()
        early_R1 = (count_R + 1 < settings_RF[:, SHORTEST])[:, None]
        index_RC = torch.where(ends_RC < 0, ends_RC[:, :1], ends_RC).clamp(min=0)
        now_RC = logprobs_RV.gather(1, index_RC)
        forbidden_RC = early_R1 & (ends_RC[:, :1] >= 0)
        logprobs_RV.scatter_(1, index_RC, now_RC.masked_fill(forbidden_RC, -torch.inf))


# Sampled token of each row, in the order of candidates that ``Sample`` has; a function a level.


def _draw_of_all(logprobs_RV: Tensor, settings_RF: Tensor, draws_R: Tensor) -> Tensor:
    weights_RV = weights_of(logprobs_RV, settings_RF[:, TEMPERATURE, None], None)
    index_V = torch.arange(logprobs_RV.shape[1], device=draws_R.device)
    return draw(weights_RV, index_V.expand_as(weights_RV), draws_R)


def _draw_of_few(logprobs_RV: Tensor, settings_RF: Tensor, draws_R: Tensor) -> Tensor:
    return _draw_of_best(*topk(logprobs_RV, MOST_CANDIDATES), settings_RF, draws_R)


def _draw_of_sorted(logprobs_RV: Tensor, settings_RF: Tensor, draws_R: Tensor) -> Tensor:
    values_RV, index_RV = logprobs_RV.sort(dim=1, descending=True, stable=True)
    return _draw_of_best(values_RV, index_RV, settings_RF, draws_R)


def _draw_of_best(
    values_RC: Tensor, index_RC: Tensor, settings_RF: Tensor, draws_R: Tensor
) -> Tensor:
    place_C = torch.arange(values_RC.shape[1], device=draws_R.device)
    beyond_RC = place_C >= settings_RF[:, TOP_K_OF, None]
    values_RC = values_RC.masked_fill(beyond_RC, -torch.inf)
    temperature_R1, top_p_R1 = settings_RF[:, TEMPERATURE, None], settings_RF[:, TOP_P, None]
    return draw(weights_of(values_RC, temperature_R1, top_p_R1), index_RC, draws_R)


DRAWN = (_draw_of_all, _draw_of_few, _draw_of_sorted)  # by level, from PLAIN on
