"""Labels learned from the predictions of a fine-tuned model (Hinton et al., 2015, section 2).

The loss is (1 - w) times that of the labels plus w times T² · KL(teacher ‖ student), both
distributions softened by the temperature T. The teacher's logits are part of the examples: a target
is an array with a row for each class to predict, (class, teacher's logit of each class).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from regard.ground.batch import IGNORED, Batch, BatchLimits, Ids
from regard.ground.config import EMPTY_IS_NONE, Config
from regard.models.build.trunk_with_heads import Outputs
from regard.objectives.labels import Classification
from regard.objectives.objective import Objective, padded
from regard.parts.losses import soft_target_losses

TEACHER = "teacher"  # its logits among the targets of a batch


class LabelDistillationConfig(Config):
    """A fine-tuned model of the same task and labels, whose predictions are learned as well.

    It may have another tokenizer: it predicts the training examples once, before training.
    """

    teacher: Annotated[str | None, EMPTY_IS_NONE] = None
    """Its folder, here or under the data root, or an id of the Hugging Face hub."""
    temperature: float = Field(2.0, gt=0)
    """The temperature of both softmax distributions."""
    weight: float = Field(0.5, ge=0, le=1)
    """The weight of the teacher's predictions in the loss; that of the labels is the rest."""


@dataclass(frozen=True)
class LabelDistillation(Objective):
    """Classes of rows or tokens, learned from ``labels`` and from a teacher."""

    labels: Classification
    outputs: int
    temperature: float = 2.0
    teacher_weight: float = 0.5

    @property
    def head(self) -> str:  # type: ignore[override]
        """That of the labels."""
        return self.labels.head

    def weight(self, example: tuple[Any, np.ndarray]) -> float:
        """That of its labels."""
        return self.labels.weight_of([without_teacher(example)[1]])

    def collate(self, examples: Sequence[Any], limits: BatchLimits | None = None) -> Batch:
        """A batch of labels, and the teacher's logits beside them."""
        batch = self.labels.collate([*map(without_teacher, examples)], limits)
        logits = [np.zeros((0, self.outputs), np.float32), *(one[1][:, 1:] for one in examples)]
        logits_NV = torch.from_numpy(np.concatenate(logits).astype(np.float32))
        packed_NV = padded(logits_NV, self.labels.target_count(batch.inputs), 0.0)
        return replace(batch, targets={**batch.targets, TEACHER: packed_NV})

    def loss(self, outputs: Outputs, batch: Batch) -> tuple[Tensor, Tensor]:
        """Both, and the negative log-likelihood of the labels."""
        loss, nll = self.labels.loss(outputs, batch)
        logits_NV, counts_N = outputs.by_head[self.head], batch.targets[self.head] != IGNORED
        soft_N = soft_target_losses(logits_NV, batch.targets[TEACHER], self.temperature)
        soft = (soft_N * counts_N * batch.weights.get(self.head, 1)).sum()
        return (1 - self.teacher_weight) * loss + self.teacher_weight * soft, nll


def with_teacher(example: tuple[Any, Ids], logits_NV: np.ndarray) -> tuple[Any, np.ndarray]:
    """An example with the teacher's logits for each of its targets."""
    row, targets = example
    return row, np.concatenate([np.asarray(targets)[:, None], logits_NV], axis=1, dtype=np.float32)


def without_teacher(example: tuple[Any, np.ndarray]) -> tuple[Any, np.ndarray]:
    """The example alone."""
    row, target = example
    return row, target[:, 0].astype(np.int64)
