"""Greedy search: always the most probable next token."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from torch import Tensor

from regard.ground.checks import check_whole
from regard.search.beam import Beam
from regard.search.highest import highest
from regard.search.hypothesis import Hypothesis
from regard.search.limits import Limits
from regard.search.race import RacingState, can_race, race
from regard.search.step import State
from regard.search.walk import walk


@dataclass(frozen=True)
class Greedy:
    """One hypothesis per sentence; among equally probable tokens the lower id.

    With ``no_repeat`` no run of that many tokens occurs twice in it.
    """

    no_repeat: int = 0

    def __post_init__(self) -> None:
        check_whole("no_repeat", self.no_repeat, 0)

    def __call__(
        self,
        state: State,
        limits: Limits,
        prefixes: Sequence[Sequence[int]] | None = None,
        ids: Sequence[int] | None = None,
    ) -> list[list[Hypothesis]]:
        """See ``Search``."""
        beam = Beam(1, length="none", alpha=0.0, no_repeat=self.no_repeat)
        if can_race(beam, state, limits, prefixes):
            return race(beam, cast(RacingState, state), limits, state.rows)
        return walk(state, limits, prefixes, _most_probable, no_repeat=self.no_repeat)


def _most_probable(logprobs_RV: Tensor, walk_R: np.ndarray, n: int) -> Tensor:
    return highest(logprobs_RV, 1)[1][:, 0]
