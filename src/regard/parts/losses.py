"""What a prediction costs: cross-entropy, perhaps against smoothed goals."""

import torch
from torch import Tensor

from regard.ground.batch import IGNORED


def smoothed_cross_entropy(
    logits_TV: Tensor, goals_T: Tensor, smoothing: float = 0.0, weights_T: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Sums over the goals that count: (loss, negative log-likelihood).

    With smoothing ε the goal is 1-ε on the right word plus ε spread evenly over all (Szegedy et
    al., 2016); perplexity is always taken from the second. ``weights_T`` says how much each goal
    counts.
    """
    counts_T = goals_T != IGNORED
    if weights_T is not None:
        counts_T = counts_T * weights_T
    logp_TV = torch.log_softmax(logits_TV.float(), dim=-1)
    picked_T = logp_TV.gather(1, goals_T.clamp(min=0)[:, None])[:, 0]
    likelihood = -(picked_T * counts_T).sum()
    if not smoothing:
        return likelihood, likelihood.detach()
    spread = -(logp_TV.mean(-1) * counts_T).sum()
    return (1 - smoothing) * likelihood + smoothing * spread, likelihood.detach()
