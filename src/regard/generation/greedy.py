"""Greedy search: always the most probable next token."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regard.generation.candidates import DeviceRules, topk
from regard.generation.constraints import check_repetition
from regard.generation.logit_bias import NO_BIAS, LogitBias
from regard.generation.token_loop import TokenChoice, TokenSearch


@dataclass(frozen=True)
class Greedy(TokenSearch):
    """Greedy search: one hypothesis per sentence; the lower id of equally probable tokens.

    With ``no_repeat`` no n-gram of that many tokens occurs twice in the hypothesis and its prompt;
    a ``repetition_penalty`` and a ``logit_bias`` change the distribution, see ``Repetition`` and
    ``LogitBias``.
    """

    no_repeat: int = 0
    repetition_penalty: float = 1.0
    logit_bias: LogitBias = NO_BIAS

    def __post_init__(self) -> None:
        check_repetition(self.no_repeat, self.repetition_penalty)

    def __str__(self) -> str:
        return ", ".join(["greedy search", *self.repetition.rules, *self.logit_bias.rules])

    @property
    def copies(self) -> int:
        return 1

    @property
    def choice(self) -> TokenChoice:
        return TokenChoice()

    def draws(self, ids: Sequence[int], steps: int) -> np.ndarray:
        return np.zeros((len(ids), steps))

    def choose(self, logprobs_RV: Tensor, draws_R: Tensor) -> Tensor:
        return topk(logprobs_RV, 1)[1][:, 0]

    def probabilities(self, logprobs_RV: Tensor) -> Tensor:
        chosen_R1 = topk(logprobs_RV, 1)[1]
        return torch.zeros_like(logprobs_RV).scatter(1, chosen_R1, 1.0)

    def select(
        self, rules: DeviceRules, logits_RV: Tensor, n: Tensor, draws_R: Tensor
    ) -> tuple[Tensor, Tensor]:
        values_RN, tokens_RN = rules.topk(logits_RV, n, 1)
        return values_RN[:, 0], tokens_RN[:, 0]
