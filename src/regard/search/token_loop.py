"""Search without branching: every row selects its next token until it ends."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from regard.search.constraints import Constraints, restrict
from regard.search.hypothesis import ActiveHypotheses, Hypothesis
from regard.search.step import SearchState, feed, select_rows, to_host

Choose = Callable[[Tensor, np.ndarray, int], Tensor]
"""(logprobs_RV, number of the hypothesis of each row, n) -> the n-th token of each row."""


@torch.inference_mode()
def run_token_loop(
    state: SearchState,
    constraints: Constraints,
    prefixes: Sequence[Sequence[int]] | None,
    choose: Choose,
    copies: int = 1,
    no_repeat: int = 0,
) -> list[list[Hypothesis]]:
    """``copies`` hypotheses for each sentence, the most probable first.

    They are numbered by sentence. One that cannot be continued is unfinished.
    """
    sentences = state.rows
    longest_B, forced_BL = (
        constraints.longest_of(sentences),
        constraints.forced(prefixes, sentences),
    )
    number_R = np.arange(sentences * copies)
    select_rows(state, number_R // copies)
    alive = ActiveHypotheses.begin(constraints.bos_of(sentences)).take(number_R // copies)
    results: dict[int, Hypothesis] = {}
    while len(alive):
        logprobs_RV = feed(state, alive.last_R)
        restrict(logprobs_RV, alive, constraints, forced_BL, no_repeat)
        token_R = choose(logprobs_RV, number_R, alive.length + 1)
        logprob_R = to_host(logprobs_RV.gather(1, token_R[:, None])[:, 0])
        grown = alive.grow(np.arange(len(alive)), token_R.cpu().numpy(), logprob_R)
        stuck = ~np.isfinite(logprob_R)
        ended = (grown.last_R == constraints.eos) & ~stuck
        over = stuck | ended | (longest_B[grown.sentence_R] == grown.length)
        for row in np.flatnonzero(over).tolist():
            last = alive if stuck[row] else grown
            results[int(number_R[row])] = last.hypothesis(row, finished=bool(ended[row]))
        going = np.flatnonzero(~over)
        alive, number_R = grown.take(going), number_R[going]
        if len(alive):
            select_rows(state, going)
    in_order = [results[number] for number in range(sentences * copies)]
    groups = [in_order[i * copies : (i + 1) * copies] for i in range(sentences)]
    return [sorted(group, key=lambda one: -one.score) for group in groups]
