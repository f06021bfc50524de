"""Greedy search: always the most probable next token."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from torch import Tensor

from regard.search.beam import Beam
from regard.search.highest import highest
from regard.search.hypothesis import Hypothesis
from regard.search.limits import Limits
from regard.search.race import RacingState, can_race, race
from regard.search.step import State
from regard.search.walk import walk


@dataclass(frozen=True)
class Greedy:
    """One hypothesis per sentence; among equally probable tokens the lower id."""

    def __call__(
        self,
        state: State,
        limits: Limits,
        prefixes: Sequence[Sequence[int]] | None = None,
        ids: Sequence[int] | None = None,
    ) -> list[list[Hypothesis]]:
        """See ``Search``."""
        if can_race(AS_BEAM, state, limits, prefixes):
            return race(AS_BEAM, cast(RacingState, state), limits, state.rows)
        return walk(state, limits, prefixes, _most_probable)


AS_BEAM = Beam(1, length="none", alpha=0.0)


def _most_probable(logprobs_RV: Tensor, walk_R: np.ndarray, n: int) -> Tensor:
    return highest(logprobs_RV, 1)[1][:, 0]
