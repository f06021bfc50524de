"""The log-probability of given targets, token by token."""

from collections.abc import Sequence

import numpy as np
import torch

from regard.search.rules.constraints import Constraints, table
from regard.search.step import SearchState, feed, select_rows, to_host


@torch.inference_mode()
def score(
    state: SearchState, targets: Sequence[Sequence[int]], constraints: Constraints
) -> list[list[float]]:
    """For each target the log-probability of each of its tokens, and then of EOS.

    Of ``constraints`` only BOS and EOS are read: targets may have any length and any token.
    """
    if len(targets) != state.rows:
        raise ValueError(f"{len(targets)} targets for {state.rows} sentences")
    wanted_BL = table([[*target, constraints.eos] for target in targets])
    found_BL = np.zeros(wanted_BL.shape)
    sentence_R = np.arange(len(targets))
    fed_R = constraints.bos_of(len(targets))
    for at in range(wanted_BL.shape[1]):
        going = np.flatnonzero(wanted_BL[sentence_R, at] >= 0)
        select_rows(state, going)
        sentence_R = sentence_R[going]
        logprobs_RV = feed(state, fed_R[going])
        fed_R = wanted_BL[sentence_R, at]
        found_BL[sentence_R, at] = to_host(logprobs_RV[np.arange(len(fed_R)), fed_R])
    return [row[: len(target) + 1].tolist() for row, target in zip(found_BL, targets, strict=True)]
