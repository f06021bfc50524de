"""Search without branching: every row chooses its own next token until it ends."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from regard.search.constraints import Constraints, restrict
from regard.search.hypothesis import ActiveHypotheses, Hypothesis
from regard.search.step import SearchState, feed, select_rows, to_host

Choose = Callable[[Tensor, np.ndarray, int], Tensor]
"""(logprobs_RV, number of the walk each row belongs to, n) -> the n-th token of each row."""


@torch.inference_mode()
def run_token_loop(
    state: SearchState,
    constraints: Constraints,
    prefixes: Sequence[Sequence[int]] | None,
    choose: Choose,
    copies: int = 1,
    no_repeat: int = 0,
) -> list[list[Hypothesis]]:
    """``copies`` walks for each sentence, the most probable first.

    Walks are numbered, those of one sentence together. A walk with nowhere to go stays unfinished.
    """
    sentences = state.rows
    longest_B, forced_BL = (
        constraints.longest_of(sentences),
        constraints.forced(prefixes, sentences),
    )
    walk_R = np.arange(sentences * copies)
    select_rows(state, walk_R // copies)
    alive = ActiveHypotheses.begin(constraints.bos_of(sentences)).take(walk_R // copies)
    results: dict[int, Hypothesis] = {}
    while len(alive):
        logprobs_RV = feed(state, alive.last_R)
        restrict(logprobs_RV, alive, constraints, forced_BL, no_repeat)
        token_R = choose(logprobs_RV, walk_R, alive.length + 1)
        logprob_R = to_host(logprobs_RV.gather(1, token_R[:, None])[:, 0])
        grown = alive.grow(np.arange(len(alive)), token_R.cpu().numpy(), logprob_R)
        stuck = ~np.isfinite(logprob_R)
        ended = (grown.last_R == constraints.eos) & ~stuck
        over = stuck | ended | (longest_B[grown.sentence_R] == grown.length)
        for row in np.flatnonzero(over).tolist():
            last = alive if stuck[row] else grown
            results[int(walk_R[row])] = last.hypothesis(row, finished=bool(ended[row]))
        going = np.flatnonzero(~over)
        alive, walk_R = grown.take(going), walk_R[going]
        if len(alive):
            select_rows(state, going)
    in_order = [results[number] for number in range(sentences * copies)]
    groups = [in_order[i * copies : (i + 1) * copies] for i in range(sentences)]
    return [sorted(group, key=lambda one: -one.score) for group in groups]
