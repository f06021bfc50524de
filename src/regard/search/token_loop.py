"""Search without branching: every row selects its next token until it ends."""

from collections.abc import Callable

import numpy as np
from torch import Tensor

from regard.search.hypothesis import Hypothesis
from regard.search.step import SearchBatch, select_rows, to_host

Choose = Callable[[Tensor, np.ndarray, int], Tensor]
"""(logprobs_RV, number of the hypothesis of each row, n) -> the n-th token of each row."""


def run_token_loop(
    batch: SearchBatch, choose: Choose, copies: int, no_repeat: int
) -> list[list[Hypothesis]]:
    """``copies`` hypotheses for each sentence, the most probable first.

    They are numbered by sentence. One that cannot be continued is unfinished.
    """
    batch = batch.repeated(copies)
    alive = batch.begin()
    results: dict[int, Hypothesis] = {}
    while len(alive):
        logprobs_RV = batch.step(alive, no_repeat)
        token_R = choose(logprobs_RV, alive.sentence_R, alive.length + 1)
        logprob_R = to_host(logprobs_RV.gather(1, token_R[:, None])[:, 0])
        grown = alive.grow(np.arange(len(alive)), token_R.cpu().numpy(), logprob_R)
        stuck = ~np.isfinite(logprob_R)
        ended = (grown.last_R == batch.constraints.eos) & ~stuck
        over = stuck | ended | (batch.longest_B[grown.sentence_R] == grown.length)
        for row in np.flatnonzero(over).tolist():
            last = alive if stuck[row] else grown
            results[int(alive.sentence_R[row])] = last.hypothesis(row, finished=bool(ended[row]))
        going = np.flatnonzero(~over)
        alive = grown.take(going)
        if len(alive):
            select_rows(batch.state, going)
    in_order = [results[number] for number in range(len(results))]
    groups = (in_order[at : at + copies] for at in range(0, len(in_order), copies))
    return [sorted(group, key=lambda one: -one.score) for group in groups]
