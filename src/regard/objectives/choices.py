"""Multiple choice as an objective: a softmax over the rows of a question."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from regard.ground.batch import IGNORED, Batch, Budget, Packed, Row
from regard.models.build.trunk_with_heads import Outputs
from regard.objectives.objective import Objective
from regard.parts.loss import smoothed_cross_entropy


@dataclass(frozen=True)
class MultipleChoice(Objective):
    """One of ``choices`` rows is right."""

    head: ClassVar[str] = "choice"
    choices: int

    def length(self, example: tuple[Sequence[Row], int]) -> tuple[int, ...]:
        """Tokens of each choice."""
        return tuple(len(row.tokens) for row in example[0])

    def collate(
        self, examples: Sequence[tuple[Sequence[Row], int]], budget: Budget | None = None
    ) -> Batch:
        """A batch of rows, the choices of a question side by side."""
        inputs = self.read([row for choices, _ in examples for row in choices], budget)
        targets_B = torch.full((len(examples) if budget is None else budget.rows,), IGNORED)
        targets_B[: len(examples)] = torch.tensor([label for _, label in examples])
        return Batch(inputs, {self.head: targets_B}, len(examples))

    def read(self, rows: Sequence[Any], budget: Budget | None = None) -> Packed:
        """The rows alone; a budget is that of each choice."""
        if budget is not None:
            all_choices = self.choices * budget.tokens, self.choices * budget.rows
            budget = Budget(*all_choices, budget.longest)
        return super().read(rows, budget)

    def loss(self, outputs: Outputs, batch: Batch) -> tuple[Tensor, Tensor]:
        """Cross-entropy of the right choice of each question."""
        targets_B, scores_B = batch.targets[self.head], outputs.by_head[self.head][:, 0]
        questions = len(targets_B)
        logits_BV = scores_B[: questions * self.choices].unflatten(0, (questions, self.choices))
        return smoothed_cross_entropy(logits_BV, targets_B)
