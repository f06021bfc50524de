"""Multiple choice as an objective: a softmax over the rows of a question."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, ClassVar

import torch
from torch import Tensor

from regard.ground.batch import IGNORED, Batch, BatchLimits, PackedTokens, TokenRow
from regard.models.trunk_with_heads import Outputs
from regard.objectives.objective import Objective, padded
from regard.parts.losses import smoothed_cross_entropy


@dataclass(frozen=True)
class MultipleChoice(Objective):
    """One of ``choices`` rows is right."""

    head: ClassVar[str] = "choice"
    choices: int

    def length(self, example: tuple[Sequence[TokenRow], int]) -> tuple[int, ...]:
        """Tokens of each choice."""
        return tuple(len(row.tokens) for row in example[0])

    def read(self, rows: Sequence[Any], limits: BatchLimits | None = None) -> PackedTokens:
        """The choices of all questions side by side; limits are those of each choice."""
        if limits is not None:
            all_choices = self.choices * limits.tokens, self.choices * limits.rows
            limits = BatchLimits(*all_choices, limits.longest)
        return super().read([*chain(*rows)], limits)

    def pack_targets(
        self, targets: Sequence[int], inputs: PackedTokens, limits: BatchLimits | None
    ) -> Tensor:
        """The number of the right choice of each question."""
        labels_B = torch.tensor(targets, dtype=torch.int64)
        return padded(labels_B, len(targets) if limits is None else limits.rows, IGNORED)

    def loss(self, outputs: Outputs, batch: Batch) -> tuple[Tensor, Tensor]:
        """Cross-entropy of the right choice of each question."""
        targets_B, scores_B = batch.targets[self.head], outputs.by_head[self.head][:, 0]
        questions = len(targets_B)
        logits_BV = scores_B[: questions * self.choices].unflatten(0, (questions, self.choices))
        return smoothed_cross_entropy(logits_BV, targets_B)
