"""Changes of the logits of next tokens: by token, and by the tokens written so far."""

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regard.ground.checks import check_number, check_whole
from regard.ground.errors import BadInput


def _check_finite(name: str, number: float) -> None:
    check_number(name, number)
    if not math.isfinite(number):
        raise BadInput(f"{name} must be finite, not {number}")


@dataclass(frozen=True)
class LogitBias:
    """Numbers that are added to logits before the softmax.

    ``by_token`` are pairs of a token and the number added to its logit. From the logits of tokens
    of the hypothesis, ``presence`` is subtracted once and ``frequency`` for each occurrence; tokens
    of the prompt do not count.
    """

    by_token: tuple[tuple[int, float], ...] = ()
    presence: float = 0.0
    frequency: float = 0.0

    def __post_init__(self) -> None:
        for token, number in self.by_token:
            check_whole("a token of a logit bias", token, 0)
            _check_finite("a logit bias", number)
        _check_finite("a presence penalty", self.presence)
        _check_finite("a frequency penalty", self.frequency)

    def __bool__(self) -> bool:
        return bool(self.by_token or self.presence or self.frequency)

    @property
    def rules(self) -> list[str]:
        """Descriptions of the changes in effect."""
        rules = [f"logit bias of {len(self.by_token)} tokens"] if self.by_token else []
        rules += [f"presence penalty {self.presence:g}"] if self.presence else []
        return rules + ([f"frequency penalty {self.frequency:g}"] if self.frequency else [])

    def logprobs(self, logprobs_RV: Tensor, written_RL: np.ndarray) -> Tensor:
        """Log-probabilities after the changes, given the tokens of each hypothesis."""
        changed_RV = logprobs_RV.clone()
        for token, number in self.by_token:
            if token < changed_RV.shape[1]:
                changed_RV[:, token] += number
        if self.presence or self.frequency:
            written = torch.from_numpy(written_RL).to(changed_RV.device)
            counts_RV = torch.zeros_like(changed_RV)
            counts_RV.scatter_add_(1, written, torch.ones_like(written, dtype=counts_RV.dtype))
            changed_RV -= self.frequency * counts_RV + self.presence * (counts_RV > 0)
        return changed_RV.log_softmax(-1)


NO_BIAS = LogitBias()
