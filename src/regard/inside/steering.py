"""Steering vectors: the mean difference of states between two sets of texts.

Added to the states of a layer, such a vector moves outputs from the second set towards the first
(Turner et al., 2023, arXiv:2308.10248; Rimsky et al., 2023, arXiv:2312.06681, equation 1).
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.core.checks import check_whole
from regard.tasks.components import Runner


class SteeringVector(NamedTuple):
    """Vector, and the name on the tape of the states that it is made of."""

    at: str
    values: Tensor


def steering_vector(
    model: Runner, plus: Sequence[Any], minus: Sequence[Any], layer: int | None = None
) -> SteeringVector:
    """Mean state of the texts ``plus`` minus the mean state of ``minus``, after a block from 0 on.

    The default is the middle block. The state of a text is the mean over its tokens, special ones
    included.
    """
    trunk, depth = model.facts.encoder, model.facts.encoder.stack.depth
    chosen = depth // 2 if layer is None else layer
    number = check_whole("layer", chosen, -depth, depth - 1) % depth
    means = []
    for texts in (plus, minus):
        states = model.encode(texts, layer=number + 1)
        means.append(torch.stack([states_TD.float().mean(0) for states_TD in states]).mean(0))
    first_D, second_D = means
    at = trunk.state_path(model.facts.encoder_path, number + 1)
    return SteeringVector(at, (first_D - second_D).cpu())
