"""Rules against repetition: a penalty on tokens that were seen, and n-grams that occur once."""

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regard.ground.checks import check_number, check_whole
from regard.ground.errors import BadInput


def check_repetition(no_repeat: int, penalty: float) -> None:
    """Refuse rules that cannot be."""
    check_whole("no_repeat", no_repeat, 0)
    check_number("a repetition penalty", penalty)
    if not 0 < penalty < math.inf:
        raise BadInput(f"a repetition penalty must be positive and finite, not {penalty}")


@dataclass(frozen=True)
class Repetition:
    """No n-gram of ``no_repeat`` tokens occurs twice (0: any may), and seen tokens cost.

    With a ``penalty`` above 1, logits of tokens in the prompt or the hypothesis are divided by it
    where they are positive and multiplied where they are negative (Keskar et al., 2019,
    arXiv:1909.05858, section 4.1, as ``transformers`` has it); the distribution is what results.
    Not ``of_logits``, it multiplies log-probabilities, which is what the beams of ``transformers``
    do: they are no distribution then.
    """

    no_repeat: int = 0
    penalty: float = 1.0
    of_logits: bool = True

    def __post_init__(self) -> None:
        check_repetition(self.no_repeat, self.penalty)

    @property
    def penalises(self) -> bool:
        """Whether the penalty changes anything."""
        return self.penalty != 1

    @property
    def rules(self) -> list[str]:
        """What it changes, in words."""
        grams = [f"no {self.no_repeat}-gram twice"] if self.no_repeat else []
        return grams + [f"repetition penalty {self.penalty:g}"] * self.penalises

    def logprobs(self, logprobs_RV: Tensor, normaliser_R: Tensor, seen_RL: np.ndarray) -> Tensor:
        """Log-probabilities after the penalty; with ``normaliser_R`` they are the logits."""
        if not self.penalises:
            return logprobs_RV
        seen_RV = torch.zeros(logprobs_RV.shape, dtype=torch.bool, device=logprobs_RV.device)
        rows, at = np.nonzero(seen_RL >= 0)
        seen_RV[rows, seen_RL[rows, at]] = True
        if not self.of_logits:
            return self.penalised(logprobs_RV, seen_RV)
        logits_RV = logprobs_RV + normaliser_R[:, None]
        return torch.log_softmax(self.penalised(logits_RV, seen_RV), dim=-1)

    def penalised(self, scores_RV: Tensor, seen_RV: Tensor) -> Tensor:
        """Scores, lower where a token was seen."""
        lower_RV = torch.where(scores_RV < 0, scores_RV * self.penalty, scores_RV / self.penalty)
        return torch.where(seen_RV, lower_RV, scores_RV)
