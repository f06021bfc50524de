"""Labels learned from the predictions of a fine-tuned model (Hinton et al., 2015, section 2).

The loss is (1 - w) · (loss of the labels) + w · T² · KL(teacher ‖ student), both distributions
softened by the temperature T; in hard distillation the second term is the cross-entropy of the
teacher's best class (Touvron et al., 2020, arXiv:2012.12877, equation 3). In a model with a
distillation token, the layer over the class token learns the labels, the other the teacher's.

A target is an array with a row for each class to predict: (class, teacher's logit of each class).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Generic, Literal, TypeVar

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from regard.core.batch import IGNORED, Batch, Ids, Limits, PackedTokens
from regard.core.config import EMPTY_IS_NONE, Config
from regard.layers.losses import soft_target_losses
from regard.models.trunk_with_heads import Outputs
from regard.objectives.label_losses import Classification
from regard.objectives.objective import Objective, padded

Row = TypeVar("Row")

LABEL_LAYERS = "label_layers"  # the logits of each output layer of DeiT's head
TEACHER = "teacher"  # the key of its logits among the targets of a batch


class LabelDistillationConfig(Config):
    """The table ``[distillation]``: a fine-tuned model of the same task and labels as teacher.

    The teacher predicts the training examples once, before training, with its own tokenizer.
    """

    teacher: Annotated[str | None, EMPTY_IS_NONE] = None
    """Its folder, here or under the data root, or an id of the Hugging Face hub."""
    kind: Literal["soft", "hard"] = "soft"
    """"soft": its probabilities are learned, softened by the temperature. "hard": the label that it
    finds most probable (DeiT: arXiv:2012.12877)."""
    temperature: float = Field(2.0, gt=0)
    """The temperature of both softmax distributions."""
    weight: float = Field(0.5, ge=0, le=1)
    """The weight of the teacher's predictions in the loss; that of the labels is the rest."""

    @property
    def is_hard(self) -> bool:
        """Whether the teacher's most probable label is learned, not its probabilities."""
        return self.kind == "hard"


@dataclass(frozen=True)
class LabelDistillation(Objective[tuple[Row, np.ndarray], np.ndarray], Generic[Row]):
    """Label-distillation objective: classes of rows or tokens, from ``labels`` and a teacher."""

    labels: Classification
    outputs: int
    temperature: float = 2.0
    teacher_weight: float = 0.5
    hard: bool = False

    @property
    def head(self) -> str:  # type: ignore[override]
        """The name of the label head."""
        return self.labels.head

    def weight(self, example: tuple[Row, np.ndarray]) -> float:
        return self.labels.weight_of([without_teacher(example)[1]])

    @property
    def no_target(self) -> np.ndarray:
        """Target that is ignored by the loss."""
        logits_NV = np.zeros((len(self.labels.no_target), self.outputs), np.float32)
        return with_teacher((None, self.labels.no_target), logits_NV)[1]

    def with_targets(
        self, inputs: PackedTokens, targets: Sequence[np.ndarray], limits: Limits = None
    ) -> Batch:
        batch = self.labels.with_targets(inputs, [*map(_classes, targets)], limits)
        logits = [np.zeros((0, self.outputs), np.float32), *(target[:, 1:] for target in targets)]
        logits_NV = torch.from_numpy(np.concatenate(logits).astype(np.float32))
        packed_NV = padded(logits_NV, self.labels.target_count(batch.inputs), 0.0)
        return replace(batch, targets={**batch.targets, TEACHER: packed_NV})

    def loss(self, outputs: Outputs, batch: Batch) -> tuple[Tensor, Tensor]:
        of_labels = self.labels.loss(self._of_labels(outputs), batch)
        return self._with_teacher(of_labels, outputs, batch, 1.0, 0)

    def loss_by_shares(
        self, outputs: Outputs, batch: Batch, shares_N: Tensor, places: int
    ) -> tuple[Tensor, Tensor]:
        """Loss against targets rolled by ``places``, weighted by ``shares_N`` (mixup)."""
        of_labels = self.labels.loss_by_shares(self._of_labels(outputs), batch, shares_N, places)
        return self._with_teacher(of_labels, outputs, batch, shares_N, places)

    def _of_labels(self, outputs: Outputs) -> Outputs:
        """Outputs with the logits of the first output layer only, which learns the labels."""
        return outputs._replace(by_head={self.head: self._logits_by_layer(outputs)[0]})

    def _logits_by_layer(self, outputs: Outputs) -> Tensor:
        """The logits of each output layer of the head, (1 or 2, N, V)."""
        logits_NV = outputs.by_head[self.head]
        return outputs.by_head.get(LABEL_LAYERS, logits_NV[None])

    def _with_teacher(
        self,
        of_labels: tuple[Tensor, Tensor],
        outputs: Outputs,
        batch: Batch,
        shares_N: Tensor | float,
        places: int,
    ) -> tuple[Tensor, Tensor]:
        """The weighted sum of the losses against labels and against the teacher's predictions."""
        loss, nll = of_labels
        counts_N = (batch.targets[self.head] != IGNORED) * batch.weights.get(self.head, 1)
        teacher_NV = batch.targets[TEACHER].roll(-places, 0)
        logits_NV = self._logits_by_layer(outputs)[-1]
        if self.hard:
            losses_N = F.cross_entropy(logits_NV.float(), teacher_NV.argmax(-1), reduction="none")
        else:
            losses_N = soft_target_losses(logits_NV, teacher_NV, self.temperature)
        of_teacher = (losses_N * counts_N.roll(-places) * shares_N).sum()
        return (1 - self.teacher_weight) * loss + self.teacher_weight * of_teacher, nll


def with_teacher(example: tuple[Row, Ids], logits_NV: np.ndarray) -> tuple[Row, np.ndarray]:
    """Add the teacher's logits to each target of an example."""
    row, targets = example
    return row, np.concatenate([np.asarray(targets)[:, None], logits_NV], axis=1, dtype=np.float32)


def without_teacher(example: tuple[Row, np.ndarray]) -> tuple[Row, np.ndarray]:
    """Remove the teacher's logits from the targets of an example."""
    row, target = example
    return row, _classes(target)


def _classes(target: np.ndarray) -> np.ndarray:
    return target[:, 0].astype(np.int64)
