"""Label objectives: classification, multi-label, regression, CRF, spans, multiple choice.

A row has one target, or each of its tokens has one, most of which are ignored.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from math import nan
from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.core.batch import IGNORED, Batch, BatchLimits, Ids, Limits, PackedTokens, TokenRow
from regard.layers.crf import log_partition, path_score
from regard.layers.losses import smoothed_cross_entropy
from regard.models.label_heads import TransitionHead
from regard.models.trunk_with_heads import Outputs
from regard.objectives.objective import Objective, Target, padded
from regard.text.label_sets import MultiLabelSet, RegressionSet, SingleLabelSet


@dataclass(frozen=True)
class Classification(Objective[tuple[TokenRow, Ids], Ids]):
    """Classification objective: one class for each row, cross-entropy with class ``weights``."""

    head: ClassVar[str] = "label"
    no_target: ClassVar[Ids] = (IGNORED,)  # of an example that is not counted
    smoothing: float = 0.0
    weights: tuple[float, ...] | None = None

    def weight_of(self, targets: Sequence[Ids]) -> float:
        numbers = np.concatenate([np.zeros(0, np.int64), *targets])
        numbers = numbers[numbers != IGNORED]
        return len(numbers) if self.weights is None else float(np.take(self.weights, numbers).sum())

    def with_targets(
        self, inputs: PackedTokens, targets: Sequence[Ids], limits: Limits = None
    ) -> Batch:
        batch = super().with_targets(inputs, targets, limits)
        if self.weights is None:
            return batch
        weights = torch.tensor(self.weights)[batch.targets[self.head].clamp(min=0)]
        return replace(batch, weights={self.head: weights})

    def pack_targets(self, targets: Sequence[Ids], inputs: PackedTokens, limits: Limits) -> Tensor:
        numbers = np.concatenate([np.zeros(0, np.int64), *targets])
        return padded(torch.from_numpy(numbers), self.target_count(inputs), IGNORED)

    def loss(self, outputs: Outputs, batch: Batch) -> tuple[Tensor, Tensor]:
        logits, targets = outputs.by_head[self.head], batch.targets[self.head]
        return smoothed_cross_entropy(logits, targets, self.smoothing, batch.weights.get(self.head))

    def loss_by_shares(
        self, outputs: Outputs, batch: Batch, shares_N: Tensor, places: int
    ) -> tuple[Tensor, Tensor]:
        """Cross-entropy against targets rolled by ``places``, weighted by ``shares_N`` (mixup)."""
        logits, targets_N = outputs.by_head[self.head], batch.targets[self.head].roll(-places)
        if (weights_N := batch.weights.get(self.head)) is not None:
            shares_N = shares_N * weights_N.roll(-places)
        return smoothed_cross_entropy(logits, targets_N, self.smoothing, shares_N)


class TokenClassification(Classification):
    """Token-classification objective: one class for each token; mean over the targets of a step."""

    head, per_token = "token_label", True


@dataclass(frozen=True)
class NumberObjective(Objective[tuple[TokenRow, Sequence[float]], Sequence[float]]):
    """Base class of objectives with a target number for each of the head's ``outputs``."""

    head: ClassVar[str] = "label"
    outputs: int = 1

    @property
    def no_target(self) -> Sequence[float]:
        """Target that is ignored by the loss."""
        return (nan,) * self.outputs

    def pack_targets(
        self, targets: Sequence[Sequence[float]], inputs: PackedTokens, limits: Limits
    ) -> Tensor:
        numbers = np.concatenate([np.zeros(0), *targets]).astype(np.float32)
        numbers_NV = torch.from_numpy(numbers.reshape(-1, self.outputs))
        return padded(numbers_NV, self.target_count(inputs), nan)

    def loss(self, outputs: Outputs, batch: Batch) -> tuple[Tensor, Tensor]:
        logits_NV, targets_NV = outputs.by_head[self.head].float(), batch.targets[self.head]
        losses_NV = self.each(logits_NV, targets_NV.nan_to_num()) * ~targets_NV.isnan()
        loss = losses_NV.mean(-1).sum()
        return loss, loss.detach()

    def each(self, logits_NV: Tensor, targets_NV: Tensor) -> Tensor:
        """Loss of each number."""
        raise NotImplementedError


class MultiLabel(NumberObjective):
    """Multi-label objective: any number of labels for each row; binary cross-entropy."""

    def each(self, logits_NV: Tensor, targets_NV: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(logits_NV, targets_NV, reduction="none")


class Regression(NumberObjective):
    """Regression objective: squared error of each number of a row."""

    def each(self, logits_NV: Tensor, targets_NV: Tensor) -> Tensor:
        return (logits_NV - targets_NV) ** 2


class TokenRegression(Regression):
    """Token-regression objective: a number for each word; mean squared error over a step."""

    head, per_token = "token_label", True

    def weight_of(self, targets: Sequence[Sequence[float]]) -> float:
        return float(np.isfinite(np.concatenate([np.zeros(0), *targets])).sum())


Make = Callable[[int, float, tuple[float, ...] | None], Objective]
ROW_OBJECTIVES: dict[str, Make] = {
    SingleLabelSet.problem_type: lambda outputs, *settings: Classification(*settings),
    MultiLabelSet.problem_type: lambda outputs, *settings: MultiLabel(outputs),
    RegressionSet.problem_type: lambda outputs, *settings: Regression(outputs),
}
TOKEN_OBJECTIVES: dict[str, Make] = {
    SingleLabelSet.problem_type: lambda outputs, *settings: TokenClassification(*settings),
    RegressionSet.problem_type: lambda outputs, *settings: TokenRegression(outputs),
}
"""Objectives by problem type, from the number of outputs, label smoothing and class weights."""


@dataclass(frozen=True)
class LabelSequences(TokenClassification):
    """CRF objective: negative log-likelihood of the labels of a row, averaged over all labels."""

    def loss(self, outputs: Outputs, batch: Batch) -> tuple[Tensor, Tensor]:
        layout, targets_T = batch.inputs.layout, batch.targets[self.head]
        logits_BLV = layout.pad(outputs.by_head[self.head].float())
        real_BL, labels_BL = layout.pad(targets_T != IGNORED), layout.pad(targets_T)
        transitions = outputs.by_head[TransitionHead.name]
        score_B = path_score(logits_BLV, labels_BL, real_BL, transitions)
        loss = (log_partition(logits_BLV, real_BL, transitions) - score_B).sum()
        return loss, loss.detach()


class SpanExtraction(Objective[tuple[TokenRow, tuple[int, int]], tuple[int, int]]):
    """Span objective: first and last token of a span, by two softmaxes over the tokens of a row.

    The loss of a row is the mean of both. The summary token of a row means "no answer".
    """

    head: ClassVar[str] = "span"

    def pack_targets(
        self, targets: Sequence[tuple[int, int]], inputs: PackedTokens, limits: Limits
    ) -> Tensor:
        ends_BV = torch.tensor(targets, dtype=torch.int64).view(-1, 2)
        return padded(ends_BV, self.target_count(inputs), IGNORED)

    def loss(self, outputs: Outputs, batch: Batch) -> tuple[Tensor, Tensor]:
        layout = batch.inputs.layout
        padded_BLV = layout.pad(outputs.by_head[self.head].float())
        lowest = torch.finfo(torch.float32).min
        padded_BLV = padded_BLV.masked_fill(~layout.real_BL[:, :, None], lowest)
        both = padded_BLV.transpose(1, 2).flatten(0, 1)  # first and last token in turn
        loss, likelihood = smoothed_cross_entropy(both, batch.targets[self.head].flatten())
        return loss / 2, likelihood / 2


class GroupObjective(Objective[tuple[Sequence[TokenRow], Target], Target]):
    """Base class of objectives of examples (rows of tokens, target), of as many rows each."""

    @property
    def rows_per_example(self) -> int:
        """Number of rows of an example."""
        raise NotImplementedError

    def length(self, example: tuple[Sequence[TokenRow], Target]) -> tuple[int, ...]:
        return tuple(len(row.tokens) for row in example[0])

    def read(self, rows: Sequence[Sequence[TokenRow]], limits: Limits = None) -> PackedTokens:
        if limits is not None:
            every = self.rows_per_example * limits.tokens, self.rows_per_example * limits.rows
            limits = BatchLimits(*every, limits.longest)
        return super().read([*chain(*rows)], limits)


@dataclass(frozen=True)
class MultipleChoice(GroupObjective[int]):
    """Multiple-choice objective: cross-entropy over the scores of the ``choices`` rows."""

    head: ClassVar[str] = "choice"
    choices: int

    @property
    def rows_per_example(self) -> int:
        return self.choices

    def pack_targets(self, targets: Sequence[int], inputs: PackedTokens, limits: Limits) -> Tensor:
        labels_B = torch.tensor(targets, dtype=torch.int64)
        return padded(labels_B, len(targets) if limits is None else limits.rows, IGNORED)

    def loss(self, outputs: Outputs, batch: Batch) -> tuple[Tensor, Tensor]:
        targets_B, scores_B = batch.targets[self.head], outputs.by_head[self.head][:, 0]
        questions = len(targets_B)
        logits_BV = scores_B[: questions * self.choices].unflatten(0, (questions, self.choices))
        return smoothed_cross_entropy(logits_BV, targets_B)
