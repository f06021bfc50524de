"""Averages of weights, with which a model is evaluated and kept instead of those of the last step.

Moving averages forget early weights. Non-monotonically triggered averaging (NT-ASGD: Merity et al.,
2017, arXiv:1708.02182, algorithm 1) begins once the development set stops improving.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.training.recipe import Recipe

Weights = dict[str, Tensor]


class MovingAverage:
    """Exponential moving average of weights: average ← decay·average + (1 - decay)·weights.

    The decay is at most (1 + step) / (10 + step), so that initial weights have little influence.
    """

    since = 0  # the step after which weights are averaged; always

    def __init__(self, weights: Weights, decay: float):
        self.decay = decay
        self.weights = {name: tensor.clone() for name, tensor in weights.items()}

    def update(self, weights: Weights, step: int) -> None:
        """Update the average after a step."""
        _mix(self.weights, weights, 1 - min(self.decay, (1 + step) / (10 + step)))

    def judge(self, values: Sequence[float], step: int) -> None:
        """It does not depend on the development set."""


class TriggeredAverage:
    """The mean of the weights after each step from ``since`` on; before, the weights themselves.

    It begins after an evaluation that is worse than the best one more than ``interval`` before it.
    """

    def __init__(self, weights: Weights, interval: int):
        self.interval, self.since = interval, 0
        self.weights = {name: tensor.clone() for name, tensor in weights.items()}

    def update(self, weights: Weights, step: int) -> None:
        """Update the average after a step."""
        _mix(self.weights, weights, 1 / (step - self.since) if self.since else 1.0)

    def judge(self, values: Sequence[float], step: int) -> None:
        """Take note of the results of all evaluations, of which higher ones are better."""
        *earlier, last = values
        before = earlier[: -self.interval]
        if not self.since and before and last < max(before):
            self.since = step


Average = MovingAverage | TriggeredAverage


def average_of(recipe: Recipe, weights: Weights) -> Average | None:
    """The average that a recipe keeps, if it keeps one."""
    if interval := recipe.optimiser.trigger:
        return TriggeredAverage(weights, interval)
    return MovingAverage(weights, recipe.train.ema) if recipe.train.ema else None


@torch.no_grad()
def _mix(averages: Weights, weights: Weights, share: float) -> None:
    torch._foreach_lerp_([averages[name] for name in weights], list(weights.values()), share)
