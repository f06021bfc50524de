"""Labels of tokens as objectives. A target is given for each token of a row; most have none."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import nan
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from regard.ground.batch import IGNORED, Batch, BatchLimits, Ids, pack_ids
from regard.models.build.trunk_with_heads import Outputs
from regard.objectives.labels import ClassObjective
from regard.objectives.objective import Objective
from regard.text.labels import RegressionSet, SingleLabelSet


@dataclass(frozen=True)
class TokenClassification(ClassObjective):
    """One of several labels for each token; the loss of a step is the mean over its targets."""

    head: ClassVar[str] = "token_label"

    def weight(self, example: tuple[Any, Ids]) -> float:
        """That of its targets."""
        targets = np.asarray(example[1])
        targets = targets[targets != IGNORED]
        return len(targets) if self.weights is None else float(np.take(self.weights, targets).sum())

    def collate(
        self, examples: Sequence[tuple[Any, Ids]], limits: BatchLimits | None = None
    ) -> Batch:
        """A batch of rows; with ``limits``, of fixed shape."""
        inputs = self.read([row for row, _ in examples], limits)
        targets_T = pack_ids([targets for _, targets in examples], limits, fill=IGNORED)
        return self.batch(inputs, targets_T, examples)


class TokenRegression(Objective):
    """A number for each word: squared error, the mean over the words of a step."""

    head: ClassVar[str] = "token_label"

    def weight(self, example: tuple[Any, Sequence[float]]) -> float:
        """How many words have a number."""
        return float(np.isfinite(example[1]).sum())

    def collate(
        self, examples: Sequence[tuple[Any, Sequence[float]]], limits: BatchLimits | None = None
    ) -> Batch:
        """A batch of rows; with a ``limits``, of fixed shape."""
        inputs = self.read([row for row, _ in examples], limits)
        targets_T = torch.full((inputs.layout.tokens,), nan)
        numbers = np.concatenate([np.zeros(0), *(targets for _, targets in examples)])
        targets_T[: inputs.real] = torch.from_numpy(numbers)
        return Batch(inputs, {self.head: targets_T}, sum(map(self.weight, examples)))

    def loss(self, outputs: Outputs, batch: Batch) -> tuple[Tensor, Tensor]:
        """The sum over the batch, twice: there is no likelihood but this."""
        targets_T = batch.targets[self.head]
        values_T, counts_T = outputs.by_head[self.head][:, 0].float(), ~targets_T.isnan()
        loss = ((values_T - targets_T.nan_to_num()) ** 2 * counts_T).sum()
        return loss, loss.detach()


OBJECTIVES: dict[str, Callable[[float, tuple[float, ...] | None], Objective]] = {
    SingleLabelSet.problem_type: TokenClassification,
    RegressionSet.problem_type: lambda *settings: TokenRegression(),
}
"""By the labels of words: made of smoothing and class weights."""
