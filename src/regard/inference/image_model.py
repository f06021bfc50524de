"""A trunk that reads images, as people use it: paths, pictures and arrays in, results out."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, cast

import numpy as np
import torch

from regard.ground.batch import ImageRow
from regard.ground.checks import listed
from regard.ground.errors import BadInput, BadItem
from regard.ground.reading import NO_TEXT
from regard.images.processor import ImageProcessor
from regard.inference.embed import Embedder
from regard.inference.encoder_model import EncoderModel
from regard.text.token_labels import LabelledImage

NO_PROCESSOR = (
    "the folder does not say how images are normalised (no preprocessor_config.json; of timm: no "
    "mean and std in pretrained_cfg): give numbers (C, H, W) as the model was trained on"
)


@dataclass(frozen=True, eq=False)
class ImageModel(EncoderModel):
    """A trunk with heads over the patches of images. Its ``tokenizer`` is an image processor."""

    @property
    def text(self) -> NoReturn:
        raise BadInput(NO_TEXT)

    @property
    def reading(self) -> ImageProcessor:
        return self.processor

    @property
    def truncation(self) -> None:
        """Images are not truncated."""

    @property
    def default_pool(self) -> str:
        pool, embed = self.facts.pool, self.facts.trunk.embed
        averages = pool is not None and pool.first_read is None
        return "mean" if averages or not embed.prefix_tokens else "first"

    @property
    def summary(self) -> str | None:
        return "first" if self.facts.trunk.embed.prefix_tokens else None

    def embedder(self, pool: str | None = None, normalise: bool | None = None) -> Embedder:
        if pool == "first" and self.summary is None:
            raise BadInput("pool 'first': this model has no class token; mean and max read patches")
        return super().embedder(pool, normalise)

    @property
    def processor(self) -> ImageProcessor:
        """The image processor, or one that refuses images."""
        return cast(ImageProcessor | None, self.tokenizer) or NumbersOnly()

    def listed(self, inputs: Iterable[object], of: str = "images") -> list[object]:
        return listed(inputs, of, "image")

    def read(self, inputs: Iterable[object], *, masks: bool = False) -> list[ImageRow]:
        return [*self.processor.rows(cast(list[Any], self.listed(inputs)))]

    def label(self, image: object) -> LabelledImage:
        (row,) = self.read([image])
        try:
            values_CHW = row.read()
        except BadItem as bad:  # there is no other to be told from
            raise BadInput(bad.reason) from None
        embed: Any = self.facts.trunk.embed
        grid = self.model.trunk.embed.grid_of(torch.from_numpy(values_CHW[None]))
        pixels_HWC = self.processor.denormalised(values_CHW)
        return LabelledImage(ImageRow(lambda: values_CHW), pixels_HWC, grid, embed.prefix_names)

    def embedded_rows(
        self, inputs: Sequence[object], longest: int | None, lower: bool
    ) -> list[ImageRow]:
        return self.read(inputs)

    def parse(self, line: str, where: str) -> Path:
        return Path(line)

    def token_count(self, given: object, most: int) -> int:
        return 1

    def filler(self, top: int = 5) -> NoReturn:
        raise BadInput(NO_TEXT)

    def scorer(self, window: int | None = None, stride: int | None = None) -> NoReturn:
        raise BadInput(NO_TEXT)


class NumbersOnly(ImageProcessor):
    """Reads numbers, and refuses what would have to be normalised."""

    def denormalised(self, values_CHW: np.ndarray) -> np.ndarray:
        least, most = values_CHW.min(), values_CHW.max()
        shares_CHW = (values_CHW - least) / max(most - least, 1e-12)
        return np.rint(255 * shares_CHW).astype(np.uint8).transpose(1, 2, 0)

    def resized(self, image: object) -> NoReturn:
        raise BadInput(NO_PROCESSOR)
