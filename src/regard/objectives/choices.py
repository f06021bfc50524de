"""Multiple choice as an objective: a softmax over the rows of a question."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from regard.ground.batch import IGNORED, Batch, BatchLimits, PackedTokens, TokenRow
from regard.models.build.trunk_with_heads import Outputs
from regard.objectives.objective import Objective
from regard.parts.losses import smoothed_cross_entropy


@dataclass(frozen=True)
class MultipleChoice(Objective):
    """One of ``choices`` rows is right."""

    head: ClassVar[str] = "choice"
    choices: int

    def length(self, example: tuple[Sequence[TokenRow], int]) -> tuple[int, ...]:
        """Tokens of each choice."""
        return tuple(len(row.tokens) for row in example[0])

    def collate(
        self, examples: Sequence[tuple[Sequence[TokenRow], int]], limits: BatchLimits | None = None
    ) -> Batch:
        """A batch of rows, the choices of a question side by side."""
        inputs = self.read([row for choices, _ in examples for row in choices], limits)
        targets_B = torch.full((len(examples) if limits is None else limits.rows,), IGNORED)
        targets_B[: len(examples)] = torch.tensor([label for _, label in examples])
        return Batch(inputs, {self.head: targets_B}, len(examples))

    def read(self, rows: Sequence[Any], limits: BatchLimits | None = None) -> PackedTokens:
        """The rows alone; a budget is that of each choice."""
        if limits is not None:
            all_choices = self.choices * limits.tokens, self.choices * limits.rows
            limits = BatchLimits(*all_choices, limits.longest)
        return super().read(rows, limits)

    def loss(self, outputs: Outputs, batch: Batch) -> tuple[Tensor, Tensor]:
        """Cross-entropy of the right choice of each question."""
        targets_B, scores_B = batch.targets[self.head], outputs.by_head[self.head][:, 0]
        questions = len(targets_B)
        logits_BV = scores_B[: questions * self.choices].unflatten(0, (questions, self.choices))
        return smoothed_cross_entropy(logits_BV, targets_B)
