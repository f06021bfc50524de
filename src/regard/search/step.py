"""The protocol between decoding and search: a state that gives the next distribution."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from regard.ground.errors import BadInput
from regard.search.constraints import Constraints
from regard.search.hypothesis import Hypothesis


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


class Search(ABC):
    """From a state to hypotheses: ``Greedy``, ``Beam``, ``Diverse``, ``Exact``, ``Sample``, …"""

    @property
    def needs_attention(self) -> bool:
        """Whether its states must give attention weights."""
        return False

    @abstractmethod
    def __call__(
        self,
        state: SearchState,
        constraints: Constraints,
        prefixes: Sequence[Sequence[int]] | None = None,
        ids: Sequence[int] | None = None,
    ) -> list[list[Hypothesis]]:
        """For each sentence its hypotheses, best first.

        ``prefixes`` are the tokens that each sentence's hypotheses must begin with. ``ids`` number
        the sentences, so that samples do not depend on the batch; other searches ignore them.
        """


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
