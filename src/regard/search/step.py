"""The protocol between a model and a search: a state that says the next distribution."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from regard.search.constraints import Constraints
from regard.search.hypothesis import Hypothesis


class SearchState(Protocol):
    """A model in the middle of writing: one row for each hypothesis alive.

    A freshly opened state has one row per input sentence, and the first tokens fed are BOS.
    """

    @property
    def rows(self) -> int:
        """R, the rows alive."""

    @property
    def device(self) -> torch.device:
        """Where tokens and indices must lie."""

    def step(self, tokens_R: Tensor) -> Tensor:
        """Feed one token per row; float32 log-probabilities_RV of the next token.

        The tensor is the search's own to overwrite, until the next step.
        """

    def pick(self, index_R: Tensor) -> None:
        """Keep, reorder or repeat rows: row i becomes what row ``index_R[i]`` was."""


@runtime_checkable
class CoverageState(Protocol):
    """A state that also gives attention weights, for the coverage penalty of a beam."""

    def attention(self) -> Tensor:
        """weights_RS of the step just made, over the source; NaN beyond a row's own source."""


class Search(Protocol):
    """What ``Greedy``, ``Beam``, ``Diverse``, ``Exact`` and ``Sample`` have in common."""

    def __call__(
        self,
        state: SearchState,
        constraints: Constraints,
        prefixes: Sequence[Sequence[int]] | None = None,
        ids: Sequence[int] | None = None,
    ) -> list[list[Hypothesis]]:
        """For each sentence its hypotheses, best first.

        ``prefixes`` are the tokens each sentence's hypotheses must begin with. ``ids`` name the
        sentences, so that chance treats one alike in any batch; where nothing is drawn, they
        are not read.
        """


def feed(state: SearchState, tokens_R: np.ndarray) -> Tensor:
    """Step with tokens that lie on the host."""
    return state.step(torch.from_numpy(tokens_R).to(state.device))


def select_rows(state: SearchState, index_R: np.ndarray) -> None:
    """Pick, unless every row stays where it is."""
    if not np.array_equal(index_R, np.arange(state.rows)):
        state.pick(torch.from_numpy(index_R).to(state.device))


def to_host(logprobs: Tensor) -> np.ndarray:
    """Log-probabilities on the host; -inf is a token that cannot come, NaN a model that broke."""
    values = logprobs.cpu().numpy()
    if np.isnan(values).any():
        raise FloatingPointError("the model's log-probabilities are not numbers")
    return values
