"""Objective of image labels: images are augmented and normalised on the device, then classified."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from regard.core.batch import IGNORED, Batch, Ids, ImageRow, Limits, pack_images
from regard.core.tape import NULL_TAPE, NullTape
from regard.data.batches.memory_dataset import ImageExample, ImageExamples
from regard.images.augment import Augmentation, Draws, Mixing
from regard.images.processor import ImageProcessor
from regard.models.trunk_with_heads import Outputs
from regard.objectives.objective import Objective

BYTE = 255.0


@dataclass(frozen=True)
class ImageLabels(Objective[ImageExample, Ids]):
    """Label objective of images, whose bytes the ``processor`` normalises.

    In training, images are augmented and, if each has one class, mixed. Random draws depend on the
    key of each image.
    """

    labels: Any
    processor: ImageProcessor
    augmentation: Augmentation = field(default_factory=Augmentation)
    mixing: Mixing = field(default_factory=Mixing)

    @property
    def head(self) -> str:  # type: ignore[override]
        """The name of the label head."""
        return self.labels.head

    def to(self, device: torch.device | str) -> None:
        self.mixing.to(device)

    def weight(self, example: ImageExample) -> float:
        return self.labels.weight(example)

    def gather(self, examples: Sequence[ImageExample]) -> ImageExamples:
        return ImageExamples.of(examples)

    def collate(self, examples: Sequence[ImageExample], limits: Limits = None) -> Batch:
        if not examples:
            blank = ImageRow(lambda: np.zeros(self.processor.shape, np.uint8))
            example = self.gather([(blank, self.labels.no_target)])
            return replace(self.collate(example, limits), weight=0)
        columns = cast(ImageExamples, examples)
        inputs = pack_images(torch.from_numpy(columns.pixels), limits, columns.keys)
        return self.labels.with_targets(inputs, columns.targets, limits)

    def __call__(
        self, model: nn.Module, batch: Batch, tape: NullTape = NULL_TAPE
    ) -> tuple[Tensor, ...]:
        images = batch.inputs.tokens_T.float() / BYTE
        if not model.training:
            return self.labels.loss(self._outputs(model, images, batch, tape), batch)
        draws = Draws(batch.inputs.keys_B)
        images = self.augmentation(images, draws)
        if not self.mixing.quantiles:
            return self.labels.loss(self._outputs(model, images, batch, tape), batch)
        counts_B = batch.targets[self.head] != IGNORED
        images, share_B = self.mixing(images, counts_B & counts_B.roll(-1), draws)
        outputs = self._outputs(model, images, batch, tape)
        own = self.labels.loss_by_shares(outputs, batch, share_B, 0)
        other = self.labels.loss_by_shares(outputs, batch, 1 - share_B, 1)
        return own[0] + other[0], own[1] + other[1]

    def loss(self, outputs: Outputs, batch: Batch) -> tuple[Tensor, Tensor]:
        return self.labels.loss(outputs, batch)

    def _outputs(self, model: nn.Module, images: Tensor, batch: Batch, tape: NullTape) -> Outputs:
        inputs = replace(batch.inputs, tokens_T=self._normalised(images))
        return model(inputs, only_read=True, tape=tape)

    def _normalised(self, images: Tensor) -> Tensor:
        """Normalise images, channel by channel: mean and deviation need no tensor on the device."""
        processor, channels = self.processor, images.unbind(1)
        pairs = zip(channels, processor.mean, processor.std, strict=True)
        factor = BYTE * processor.scale
        return torch.stack([(values * factor - mean) / std for values, mean, std in pairs], 1)
