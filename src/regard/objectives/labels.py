"""Labels of whole rows as objectives: one of several classes, several at once, or numbers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import nan
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.ground.batch import IGNORED, Batch, BatchLimits, Ids, PackedTokens
from regard.models.build.trunk_with_heads import Outputs
from regard.objectives.objective import Objective
from regard.parts.losses import smoothed_cross_entropy
from regard.text.labels import MultiLabelSet, RegressionSet, SingleLabelSet


@dataclass(frozen=True)
class ClassObjective(Objective):
    """Cross-entropy over classes, each target weighted by its class as ``weights`` say."""

    smoothing: float = 0.0
    weights: tuple[float, ...] | None = None

    def batch(self, inputs: PackedTokens, targets: Tensor, examples: Sequence[Any]) -> Batch:
        """A batch with the weight of each target; any weight for an ignored target."""
        weights = {}
        if self.weights is not None:
            weights[self.head] = torch.tensor(self.weights)[targets.clamp(min=0)]
        weight: Any = sum(map(self.weight, examples))
        return Batch(inputs, {self.head: targets}, weight, weights=weights)

    def loss(self, outputs: Outputs, batch: Batch) -> tuple[Tensor, Tensor]:
        """Cross-entropy of every target."""
        return smoothed_cross_entropy(
            outputs.by_head[self.head],
            batch.targets[self.head],
            self.smoothing,
            batch.weights.get(self.head),
        )


@dataclass(frozen=True)
class Classification(ClassObjective):
    """One of several classes for each row."""

    head: ClassVar[str] = "label"

    def weight(self, example: tuple[Any, Ids]) -> float:
        """That of its class."""
        return 1 if self.weights is None else self.weights[int(example[1][0])]

    def collate(self, examples: Sequence[Any], limits: BatchLimits | None = None) -> Batch:
        """A batch of rows; those that only fill have no target."""
        inputs = self.read([row for row, _ in examples], limits)
        targets_B = torch.full((inputs.layout.rows,), IGNORED)
        targets_B[: len(examples)] = torch.tensor([int(target[0]) for _, target in examples])
        return self.batch(inputs, targets_B, examples)


@dataclass(frozen=True)
class NumberObjective(Objective):
    """A number for each of the head's ``outputs``, and a loss for each number."""

    head: ClassVar[str] = "label"
    outputs: int = 1

    def collate(self, examples: Sequence[Any], limits: BatchLimits | None = None) -> Batch:
        """A batch of rows; those that only fill have no target."""
        inputs = self.read([row for row, _ in examples], limits)
        targets_BV = torch.full((inputs.layout.rows, self.outputs), nan)
        numbers = np.array([target for _, target in examples], dtype=np.float32)
        targets_BV[: len(examples)] = torch.from_numpy(numbers.reshape(-1, self.outputs))
        return Batch(inputs, {self.head: targets_BV}, len(examples))

    def loss(self, outputs: Outputs, batch: Batch) -> tuple[Tensor, Tensor]:
        """The mean over the outputs of each row, twice: there is no likelihood but this."""
        targets_BV = batch.targets[self.head]
        counts_BV = ~targets_BV.isnan()
        logits_BV = outputs.by_head[self.head].float()
        loss = (self.each(logits_BV, targets_BV.nan_to_num()) * counts_BV).mean(-1).sum()
        return loss, loss.detach()

    def each(self, logits_BV: Tensor, targets_BV: Tensor) -> Tensor:
        """The loss of each number."""
        raise NotImplementedError


class MultiLabel(NumberObjective):
    """Each label holds (1) or does not (0), whatever the others: binary cross-entropy."""

    def each(self, logits_BV: Tensor, targets_BV: Tensor) -> Tensor:
        """Of each label alone."""
        return F.binary_cross_entropy_with_logits(logits_BV, targets_BV, reduction="none")


class Regression(NumberObjective):
    """Squared error."""

    def each(self, logits_BV: Tensor, targets_BV: Tensor) -> Tensor:
        """Of each number."""
        return (logits_BV - targets_BV) ** 2


OBJECTIVES: dict[str, Callable[[int, float, tuple[float, ...] | None], Objective]] = {
    SingleLabelSet.problem_type: lambda outputs, *settings: Classification(*settings),
    MultiLabelSet.problem_type: lambda outputs, *settings: MultiLabel(outputs),
    RegressionSet.problem_type: lambda outputs, *settings: Regression(outputs),
}
"""By the labels of a row: made of the number of outputs, smoothing and class weights."""
