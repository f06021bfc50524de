"""The labels of all words of a row together: a conditional random field (Lample et al., 2016)."""

from dataclasses import dataclass

from torch import Tensor

from regard.ground.batch import IGNORED, Batch
from regard.models.heads import TransitionHead
from regard.models.trunk_with_heads import Outputs
from regard.objectives.labels import TokenClassification
from regard.parts.crf import log_partition, path_score


@dataclass(frozen=True)
class LabelSequences(TokenClassification):
    """-log p of the labels of each row; the loss of a step is the mean over their number."""

    def loss(self, outputs: Outputs, batch: Batch) -> tuple[Tensor, Tensor]:
        """Summed over the batch."""
        layout, targets_T = batch.inputs.layout, batch.targets[self.head]
        logits_BLV = layout.pad(outputs.by_head[self.head].float())
        real_BL, labels_BL = layout.pad(targets_T != IGNORED), layout.pad(targets_T)
        given = (real_BL, outputs.by_head[TransitionHead.name])
        score_B = path_score(logits_BLV, labels_BL, *given)
        loss = (log_partition(logits_BLV, *given) - score_B).sum()
        return loss, loss.detach()
