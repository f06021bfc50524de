"""Losses: cross-entropy with label smoothing, distillation, regularisation of states."""

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.core.batch import IGNORED
from regard.core.layout import Layout


def smoothed_cross_entropy(
    logits_TV: Tensor, targets_T: Tensor, smoothing: float = 0.0, weights_T: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Sums over the targets that are not ``IGNORED``: (loss, negative log-likelihood).

    With smoothing ε the target distribution is 1-ε on the target plus ε spread evenly over the
    vocabulary (Szegedy et al., 2016), without tokens that have a logit of -inf; perplexity is
    computed from the second sum. ``weights_T`` weighs each target.
    """
    counts_T = targets_T != IGNORED
    if weights_T is not None:
        counts_T = counts_T * weights_T
    logp_TV = torch.log_softmax(logits_TV.float(), dim=-1)
    # The gradient of ``gather``, compiled, would fill a table of (T, V) in fp32.
    losses_T = F.nll_loss(logp_TV, targets_T, ignore_index=IGNORED, reduction="none")
    likelihood = (losses_T * counts_T).sum()
    if not smoothing:
        return likelihood, likelihood.detach()
    possible_TV = logp_TV > -torch.inf
    means_T = logp_TV.masked_fill(~possible_TV, 0.0).sum(-1) / possible_TV.sum(-1).clamp(min=1)
    spread = -(means_T * counts_T).sum()
    return (1 - smoothing) * likelihood + smoothing * spread, likelihood.detach()


def soft_target_losses(logits_NV: Tensor, teacher_logits_NV: Tensor, temperature: float) -> Tensor:
    """Distillation loss of each row: T² · KL(teacher ‖ student), softened by the temperature T.

    The factor T² keeps the size of gradients the same for every temperature (Hinton et al., 2015,
    section 2).
    """
    logp_NV = torch.log_softmax(logits_NV.float() / temperature, dim=-1)
    teacher_logp_NV = torch.log_softmax(teacher_logits_NV.float() / temperature, dim=-1)
    divergence_NV = F.kl_div(logp_NV, teacher_logp_NV, reduction="none", log_target=True)
    return temperature**2 * divergence_NV.sum(-1)


def mean_square(states_TD: Tensor) -> Tensor:
    """Activation regularisation (Merity et al., 2017, arXiv:1708.01009, section 2)."""
    return states_TD.float().square().mean()


def mean_square_change(states_TD: Tensor, layout: Layout) -> Tensor:
    """Temporal activation regularisation: mean squared change between tokens of a row, or 0."""
    within_T = layout.rows_T[1:] == layout.rows_T[:-1]
    changes_TD = (states_TD[1:] - states_TD[:-1]).float().square() * within_T[:, None]
    return changes_TD.sum() / (within_T.sum() * states_TD.shape[1]).clamp(min=1)
