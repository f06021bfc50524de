"""A trunk that reads images, as people use it: paths, pictures and arrays in, results out."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from torch import Tensor

from regard.ground.checks import listed
from regard.ground.errors import BadInput
from regard.images.processor import NO_TEXT, ImageProcessor
from regard.tasks.encoder_model import EncoderModel

NO_PROCESSOR = "no preprocessor_config.json: give numbers (C, H, W) as the model was trained on"


@dataclass(frozen=True, eq=False)
class ImageModel(EncoderModel):
    """A trunk with heads over the patches of images. Its ``tokenizer`` is an image processor."""

    @property
    def text(self) -> Any:
        """Its image processor; a model without one reads numbers only."""
        if self.tokenizer is None:
            raise BadInput(NO_PROCESSOR)
        return self.tokenizer

    @property
    def truncation(self) -> None:
        """Images are not truncated."""

    @property
    def summary(self) -> str | None:
        """The class token is the first."""
        return self.facts.summaries[0]

    @property
    def processor(self) -> ImageProcessor:
        """Its image processor, or one that refuses images."""
        return cast(ImageProcessor | None, self.tokenizer) or NumbersOnly()

    def read(self, inputs: Iterable[Any], *, masks: bool = False) -> list[Any]:
        """Images as rows: see ``ImageProcessor.rows``."""
        return cast(list[Any], self.processor.rows(listed(inputs, "images")))

    def vectors(
        self, inputs: Iterable[Any], pool: str | None, normalise: bool | None = None
    ) -> Tensor:
        """(inputs, width): one vector for each; see ``embedder``."""
        return self.embedder(pool, normalise).vectors(self.read(inputs))

    def parse(self, line: str, where: str) -> Any:
        """The path in a line of a file."""
        return Path(line)

    def token_count(self, given: Any, most: int) -> int:
        """An image is one."""
        return 1

    def filler(self, top: int = 5) -> Any:
        """It fills no masks."""
        raise BadInput(NO_TEXT)

    def scorer(self, window: int | None = None, stride: int | None = None) -> Any:
        """It scores no texts."""
        raise BadInput(NO_TEXT)


class NumbersOnly(ImageProcessor):
    """Reads numbers, and refuses what would have to be normalised."""

    def resized(self, image: Any) -> Any:
        raise BadInput(NO_PROCESSOR)
