"""Changes of the logits of next tokens: by token, and by the tokens written so far."""

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from regard.core.checks import check_number, check_whole
from regard.core.errors import BadInput


def _check_finite(name: str, number: float) -> None:
    check_number(name, number)
    if not math.isfinite(number):
        raise BadInput(f"{name} must be finite, not {number}")


@dataclass(frozen=True)
class LogitBias:
    """Numbers that are added to logits before the softmax.

    ``by_token`` are pairs of a token and the number added to its logit. From the logits of tokens
    of the hypothesis, ``presence`` is subtracted once and ``frequency`` for each occurrence; tokens
    of the prompt do not count. ``by_token`` becomes a tensor once, not at each step.
    """

    by_token: tuple[tuple[int, float], ...] = ()
    presence: float = 0.0
    frequency: float = 0.0
    _added: dict[tuple[int, torch.dtype, torch.device], tuple[Tensor, Tensor]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        for token, number in self.by_token:
            check_whole("a token of a logit bias", token, 0)
            _check_finite("a logit bias", number)
        if len(dict(self.by_token)) < len(self.by_token):
            raise BadInput("a logit bias must have each token once")
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

    def logprobs(self, logprobs_RV: Tensor, written_RL: Tensor) -> Tensor:
        """Log-probabilities after the changes, given the tokens of each hypothesis."""
        changed_RV = logprobs_RV.clone()
        if self.by_token:
            tokens_N, numbers_N = self._added_to(changed_RV)
            changed_RV.index_add_(1, tokens_N, numbers_N.expand(len(changed_RV), -1))
        if self.presence or self.frequency:
            counts_RV = torch.zeros_like(changed_RV)
            ones_RL = torch.ones_like(written_RL, dtype=counts_RV.dtype)
            counts_RV.scatter_add_(1, written_RL, ones_RL)
            changed_RV -= self.frequency * counts_RV + self.presence * (counts_RV > 0)
        return changed_RV.log_softmax(-1)

    def _added_to(self, logprobs_RV: Tensor) -> tuple[Tensor, Tensor]:
        """Tokens of the vocabulary, and the numbers that are added to their log-probabilities."""
        key = logprobs_RV.shape[1], logprobs_RV.dtype, logprobs_RV.device
        if key not in self._added:
            known = [(token, number) for token, number in self.by_token if token < key[0]]
            tokens, numbers = zip(*known, strict=True) if known else ((), ())
            tokens_N = torch.tensor(tokens, dtype=torch.long, device=key[2])
            numbers_N = torch.tensor(numbers, dtype=key[1], device=key[2])
            self._added[key] = tokens_N, numbers_N
        return self._added[key]


NO_BIAS = LogitBias()
