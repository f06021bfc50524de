"""Greedy search: always the most probable next token."""

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from regard.ground.checks import check_whole
from regard.search.beam_rules import BeamRules
from regard.search.device_beam import search_on_device
from regard.search.hypothesis import Hypothesis
from regard.search.step import Search, SearchBatch
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

    def search(self, batch: SearchBatch) -> list[list[Hypothesis]]:
        """On the device where the state and the rules allow it, as a beam of one."""
        beam = BeamRules(1, length="none", alpha=0.0, no_repeat=self.no_repeat)
        found = search_on_device(beam, batch)
        return run_token_loop(batch, _most_probable, 1, self.no_repeat) if found is None else found


def _most_probable(logprobs_RV: Tensor, number_R: np.ndarray, n: int) -> Tensor:
    return topk(logprobs_RV, 1)[1][:, 0]
