"""The protocol between decoding and search: a state that gives the next distribution."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from regard.ground.errors import BadInput
from regard.search.constraints import Constraints, restrict
from regard.search.hypothesis import ActiveHypotheses, Hypothesis


class SearchState(Protocol):
    """A decoder between two steps: one row for each active hypothesis.

    A new state has one row per sentence (source or prompt), and the first tokens fed are BOS or
    the last tokens of the prompts. Classes that inherit from it need no more than its first four
    members.
    """

    @property
    def rows(self) -> int:
        """R, the active rows."""

    @property
    def device(self) -> torch.device:
        """Where tokens and indices must lie."""

    def step(self, tokens_R: Tensor) -> Tensor:
        """Feed one token per row; float32 log-probabilities_RV of the next token.

        The search may overwrite the tensor, until the next step.
        """

    def select_rows(self, index_R: Tensor) -> None:
        """Drop, repeat or reorder rows: row i becomes what row ``index_R[i]`` was."""

    def attention(self) -> Tensor:
        """weights_RS of the last step, over the source; NaN beyond a row's own source."""
        raise BadInput("a coverage penalty needs attention weights, and this model gives none")

    def graphed(
        self, copies: int, key: Hashable, selector: Callable[[int, int, torch.device], Any]
    ) -> Any:
        """A decoder whose steps are CUDA graphs, with ``copies`` rows per sentence; None: none.

        ``selector`` makes its token selector, of sentences, steps and device.
        """
        return None


@dataclass(frozen=True)
class SearchBatch:
    """The sentences of a new state, their constraints, forced prefixes and ids."""

    state: SearchState
    constraints: Constraints
    prefixes: Sequence[Sequence[int]] | None
    ids: Sequence[int]

    @cached_property
    def longest_B(self) -> np.ndarray:
        """The most tokens a hypothesis may have."""
        return self.constraints.longest_of(len(self.ids))

    @cached_property
    def forced_BL(self) -> np.ndarray:
        """The prefixes, -1 where nothing is forced."""
        return self.constraints.forced(self.prefixes, len(self.ids))

    def repeated(self, copies: int) -> "SearchBatch":
        """``copies`` of each sentence, one after the other, as rows of the same state."""
        each = np.repeat(np.arange(len(self.ids)), copies)
        select_rows(self.state, each)
        begun = self.prefixes
        prefixes = None if begun is None else [one for one in begun for _ in range(copies)]
        constraints = self.constraints.repeated(len(self.ids), copies)
        return SearchBatch(self.state, constraints, prefixes, [self.ids[i] for i in each.tolist()])

    def begin(self) -> ActiveHypotheses:
        """One empty hypothesis per sentence."""
        return ActiveHypotheses.begin(self.constraints.bos_of(len(self.ids)))

    def step(self, alive: ActiveHypotheses, no_repeat: int) -> Tensor:
        """Feed the last tokens; log-probabilities_RV of the next, -inf where it is forbidden."""
        logprobs_RV = feed(self.state, alive.last_R)
        restrict(logprobs_RV, alive, self.constraints, self.forced_BL, no_repeat)
        return logprobs_RV


class Search(ABC):
    """From a state to hypotheses: ``Greedy``, ``Beam``, ``Diverse``, ``Exact``, ``Sample``, …"""

    @property
    def needs_attention(self) -> bool:
        """Whether its states must give attention weights."""
        return False

    @torch.inference_mode()
    def __call__(
        self,
        state: SearchState,
        constraints: Constraints,
        prefixes: Sequence[Sequence[int]] | None = None,
        ids: Sequence[int] | None = None,
    ) -> list[list[Hypothesis]]:
        """For each sentence its hypotheses, best first.

        ``prefixes`` are the tokens that each sentence's hypotheses must begin with. ``ids`` number
        the sentences, so that samples do not depend on the batch; by default from 0.
        """
        ids = range(state.rows) if ids is None else ids
        if len(ids) != state.rows:
            raise ValueError(f"{len(ids)} ids for {state.rows} sentences")
        return self.search(SearchBatch(state, constraints, prefixes, ids))

    @abstractmethod
    def search(self, batch: SearchBatch) -> list[list[Hypothesis]]:
        """See ``__call__``."""


def feed(state: SearchState, tokens_R: np.ndarray) -> Tensor:
    """Step with tokens on the host."""
    return state.step(torch.from_numpy(tokens_R).to(state.device))


def select_rows(state: SearchState, index_R: np.ndarray) -> None:
    """Select rows by indices on the host, unless every row stays where it is."""
    if not np.array_equal(index_R, np.arange(state.rows)):
        state.select_rows(torch.from_numpy(index_R).to(state.device))


def to_host(logprobs: Tensor) -> np.ndarray:
    """Log-probabilities on the host; -inf is a forbidden token, NaN raises an error."""
    values = logprobs.cpu().numpy()
    if np.isnan(values).any():
        raise FloatingPointError("the model's log-probabilities are not numbers")
    return values
