"""Greedy search: always the most probable next token."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from regard.ground.checks import check_whole
from regard.search.beam_rules import BeamRules
from regard.search.constraints import Constraints
from regard.search.device_beam import search_on_device
from regard.search.hypothesis import Hypothesis
from regard.search.step import Search, SearchState
from regard.search.token_loop import run_token_loop
from regard.search.topk import topk


@dataclass(frozen=True)
class Greedy(Search):
    """One hypothesis per sentence; among equally probable tokens the lower id.

    With ``no_repeat`` no n-gram of that many tokens occurs twice in it.
    """

    no_repeat: int = 0

    def __post_init__(self) -> None:
        check_whole("no_repeat", self.no_repeat, 0)

    def __call__(
        self,
        state: SearchState,
        constraints: Constraints,
        prefixes: Sequence[Sequence[int]] | None = None,
        ids: Sequence[int] | None = None,
    ) -> list[list[Hypothesis]]:
        """See ``Search``."""
        beam = BeamRules(1, length="none", alpha=0.0, no_repeat=self.no_repeat)
        found = search_on_device(beam, state, constraints, prefixes)
        if found is not None:
            return found
        return run_token_loop(
            state, constraints, prefixes, _most_probable, no_repeat=self.no_repeat
        )


def _most_probable(logprobs_RV: Tensor, number_R: np.ndarray, n: int) -> Tensor:
    return topk(logprobs_RV, 1)[1][:, 0]
