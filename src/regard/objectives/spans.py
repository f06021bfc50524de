"""Spans as an objective: where an answer begins and ends (Devlin et al., 2018, section 4.2)."""

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor

from regard.ground.batch import IGNORED, Batch, BatchLimits, PackedTokens
from regard.models.trunk_with_heads import Outputs
from regard.objectives.objective import Objective, padded
from regard.parts.losses import smoothed_cross_entropy


class SpanExtraction(Objective):
    """Two softmaxes over the tokens of each row, for the first and the last token of a span.

    The loss of a row is the mean of the two. The summary token of a row stands for "no answer".
    """

    head: ClassVar[str] = "span"

    def pack_targets(
        self, targets: Sequence[tuple[int, int]], inputs: PackedTokens, limits: BatchLimits | None
    ) -> Tensor:
        """The first and the last token of each span, counted in its row."""
        ends_BV = torch.tensor(targets, dtype=torch.int64).view(-1, 2)
        return padded(ends_BV, self.target_count(inputs), IGNORED)

    def loss(self, outputs: Outputs, batch: Batch) -> tuple[Tensor, Tensor]:
        """Cross-entropy of both ends over the tokens of their rows."""
        layout = batch.inputs.layout
        padded_BLV = layout.pad(outputs.by_head[self.head].float())
        lowest = torch.finfo(torch.float32).min
        padded_BLV = padded_BLV.masked_fill(~layout.real_BL[:, :, None], lowest)
        both = padded_BLV.transpose(1, 2).flatten(0, 1)  # first and last token in turn
        loss, likelihood = smoothed_cross_entropy(both, batch.targets[self.head].flatten())
        return loss / 2, likelihood / 2
