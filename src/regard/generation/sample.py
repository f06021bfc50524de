"""Sampling: temperature, top-k, and nucleus sampling (Holtzman et al., 2019, arXiv:1904.09751)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import torch
from torch import Tensor

from regard.core.checks import check_number, check_whole
from regard.core.errors import BadInput
from regard.generation.candidates import topk
from regard.generation.constraints import check_repetition
from regard.generation.logit_bias import NO_BIAS, LogitBias
from regard.generation.token_loop import TokenChoice, TokenSearch

MOST = 100_000  # draws for a sentence
LEAST_TEMPERATURE = 1e-300  # log-probabilities divided by a lower one are infinite


@dataclass(frozen=True)
class Sample(TokenSearch):
    """Sampling: ``count`` samples per sentence, the most probable first.

    Log-probabilities are divided by the temperature, then limited to the ``top_k`` most probable
    tokens (0: all), then to the fewest whose total probability reaches ``top_p``. Scores are the
    model's own log-probabilities. A draw depends on the seed, the sentence's id, the number of the
    sample and the step, so it is the same in any batch. With ``no_repeat`` no n-gram of that many
    tokens occurs twice in a sample and its prompt; a ``repetition_penalty`` and a
    ``logit_bias`` change the model's distribution, see ``Repetition`` and ``LogitBias``.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    count: int = 1
    seed: int = 0
    no_repeat: int = 0
    repetition_penalty: float = 1.0
    logit_bias: LogitBias = NO_BIAS

    def __post_init__(self) -> None:
        check_number("a temperature", self.temperature)
        check_number("top_p", self.top_p)
        check_whole("top_k, or 0 for all tokens,", self.top_k, 0)
        check_whole("samples", self.count, 1, MOST)
        check_whole("a seed", self.seed, 0, 2**64 - 1)
        check_repetition(self.no_repeat, self.repetition_penalty)
        if not 0 < self.temperature < math.inf:
            raise BadInput(f"a temperature must be positive and finite, not {self.temperature}")
        if self.temperature < LEAST_TEMPERATURE:
            raise BadInput(
                f"a temperature must be at least {LEAST_TEMPERATURE:g}, not {self.temperature:g}: "
                "use greedy search"
            )
        if not 0 < self.top_p <= 1:
            raise BadInput(f"top_p must be above 0 and at most 1, not {self.top_p}")

    def __str__(self) -> str:
        samples = "1 sample" if self.count == 1 else f"{self.count} samples"
        parts = [f"{samples} at temperature {self.temperature:g}"]
        parts += [f"top-k {self.top_k}"] * (self.top_k > 0)
        parts += [f"top-p {self.top_p:g}"] * (self.top_p < 1)
        return ", ".join([*parts, *self.repetition.rules, *self.logit_bias.rules])

    @property
    def copies(self) -> int:
        return self.count

    @property
    def selection(self) -> Self:
        return replace(self, seed=0, count=1)

    @property
    def choice(self) -> TokenChoice:
        return TokenChoice(True, self.temperature, self.top_k, self.top_p)

    def draws(self, ids: Sequence[int], steps: int) -> np.ndarray:
        draws = [self.uniforms(id_, number, steps) for id_ in ids for number in range(self.count)]
        return np.array(draws).reshape(len(draws), steps)

    def uniforms(self, sentence: int, number: int, steps: int) -> np.ndarray:
        """Random number in [0, 1) for each step, from a counter-based generator."""
        bits = np.random.Philox(key=[self.seed, sentence], counter=[0, 0, 0, number])
        return np.random.Generator(bits).random(steps)

    def choose(self, logprobs_RV: Tensor, draws_R: Tensor) -> Tensor:
        return draw(*self._weights(logprobs_RV), draws_R)

    def probabilities(self, logprobs_RV: Tensor) -> Tensor:
        weights, index = self._weights(logprobs_RV)
        weights = (weights / weights.sum(1, keepdim=True)).to(logprobs_RV.dtype)
        return torch.zeros_like(logprobs_RV).scatter(1, index, weights)

    def _weights(self, logprobs_RV: Tensor) -> tuple[Tensor, Tensor]:
        """Unnormalised probabilities of the candidates, and their ids."""
        values, index = self.shortlist(logprobs_RV)
        return weights_of(values, self.temperature, self.top_p if self.top_p < 1 else None), index

    def shortlist(self, logprobs_RV: Tensor) -> tuple[Tensor, Tensor]:
        """Log-probabilities and ids of the candidates, sorted if the order matters."""
        if self.top_k:
            return topk(logprobs_RV, self.top_k)
        if self.top_p < 1:
            values, index = logprobs_RV.sort(dim=1, descending=True, stable=True)
            return values, index
        vocabulary = torch.arange(logprobs_RV.shape[1], device=logprobs_RV.device)
        return logprobs_RV, vocabulary.expand_as(logprobs_RV)


@dataclass(frozen=True)
class NumberedSample(Sample):
    """One sample of several that are drawn apart: the one of this ``number``, from 0 on."""

    number: int = 0

    @property
    def selection(self) -> Self:
        return replace(super().selection, number=0)

    def uniforms(self, sentence: int, number: int, steps: int) -> np.ndarray:
        return super().uniforms(sentence, self.number + number, steps)


def weights_of(
    values_RC: Tensor, temperature: float | Tensor, top_p: float | Tensor | None
) -> Tensor:
    """Unnormalised probabilities of candidates by temperature and top_p (numbers, or a column)."""
    weights_RC = torch.softmax(values_RC.double() / temperature, dim=1)
    if top_p is None:
        return weights_RC
    return weights_RC.masked_fill(weights_RC.cumsum(1) - weights_RC >= top_p, 0)


def draw(weights: Tensor, index: Tensor, draws_R: Tensor) -> Tensor:
    """Token of each row that a random number in [0, 1) selects, by unnormalised probabilities."""
    cumulative = weights.cumsum(1)
    goal_R = draws_R * cumulative[:, -1]
    place = torch.searchsorted(cumulative, goal_R[:, None], right=True)
    # If no token is allowed, any token will do: its log-probability is -inf.
    return index.gather(1, place.clamp(max=index.shape[1] - 1))[:, 0]
