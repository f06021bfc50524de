"""Ensembles: a state that averages the distributions of several models."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from regard.ground.errors import BadInput
from regard.search.step import SearchState

MEANS = ("mean of probabilities", "mean of log-probabilities")


@dataclass(frozen=True)
class Ensemble(SearchState):
    """States of models with one vocabulary, opened on the same sentences.

    The mean of log-probabilities is normalised again: the geometric mean.
    """

    states: Sequence[SearchState]
    how: Literal["mean of probabilities", "mean of log-probabilities"] = "mean of probabilities"

    def __post_init__(self) -> None:
        if not self.states:
            raise BadInput("an ensemble needs at least one model")
        if self.how not in MEANS:
            raise BadInput(f"an ensemble averages by {' or '.join(MEANS)}, not {self.how!r}")
        if len({state.rows for state in self.states}) > 1:
            raise ValueError("the states of an ensemble have different numbers of rows")

    @property
    def rows(self) -> int:
        return self.states[0].rows

    @property
    def device(self) -> torch.device:
        return self.states[0].device

    def step(self, tokens_R: Tensor) -> Tensor:
        each = torch.stack([state.step(tokens_R) for state in self.states])
        if self.how == "mean of log-probabilities":
            return each.mean(0).log_softmax(-1)
        return each.logsumexp(0) - math.log(len(self.states))

    def select_rows(self, index_R: Tensor) -> None:
        for state in self.states:
            state.select_rows(index_R)
