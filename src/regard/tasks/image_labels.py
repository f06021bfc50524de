"""Images in the task "classify": their table, processor and objective."""

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, cast

import numpy as np
from pydantic import Field

from regard.core.config import Config, UnusableKey
from regard.core.errors import BadInput
from regard.core.reading import Reading
from regard.data.batches.memory_dataset import MOST_KEPT
from regard.data.readers.examples import LabelledExample
from regard.images.augment import Augmentation, Mixing
from regard.images.decode import DecodingPool
from regard.images.processor import ImageProcessor, ResizedImage
from regard.models.patches import Patches
from regard.objectives.images import ImageLabels
from regard.objectives.objective import Objective

Share = Annotated[float, Field(ge=0, le=1)]


class ImagesConfig(Config):
    """Normalisation and augmentation of images.

    Images are resized to the size that the model reads. Augmentation runs on the device, in the
    order of the keys.
    """

    mean: tuple[float, ...] = (0.5,)
    """The mean of each channel, of numbers from 0 to 1, or one for all."""
    std: tuple[Annotated[float, Field(gt=0)], ...] = (0.5,)
    """The standard deviation of each channel, or one for all."""
    workers: int = Field(4, ge=0)
    """Processes that decode files; 0: the training process does."""
    crop: int = Field(0, ge=0)
    """Padding of random crops: images are shifted by up to this number of pixels."""
    crop_area: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Random resized crops: the smallest share of the area of a resized image that is stretched to
    all of it."""
    flip: bool = False
    """Half of the images are mirrored, left to right."""
    operations: int = Field(0, ge=0)
    """RandAugment (arXiv:1909.13719): the number of operations on each image."""
    magnitude: Share = 0.5
    """The magnitude of RandAugment, as a share of the largest."""
    erase: Share = 0.0
    """The rate of random erasing (arXiv:1708.04896)."""
    mixup: float = Field(0.0, ge=0)
    """The α of mixup (arXiv:1710.09412); 0: none."""
    cutmix: float = Field(0.0, ge=0)
    """The α of CutMix (arXiv:1905.04899); 0: none. With both, each image has one of them."""


NORMALISATION = ("mean", "std")
MIXED = ("mixup", "cutmix")


def reads_images(reading: Reading) -> bool:
    """Whether a model reads images: by an image processor."""
    return reading.name == ImageProcessor.name


def unread_image_keys(config: ImagesConfig, images: bool, single: bool) -> Iterator[UnusableKey]:
    """Keys of the table that nothing reads, because the model reads texts, or predicts several
    labels.
    """
    keys = sorted(config.model_fields_set)
    if not images:
        yield from (UnusableKey(f"images.{key}", "with a model that reads texts") for key in keys)
    elif not single:
        mixed = (key for key in MIXED if key in keys)
        why = "where an image has not one label"
        yield from (UnusableKey(f"images.{key}", why) for key in mixed)
    if "magnitude" in keys and not config.operations:
        yield UnusableKey("images.magnitude", "without images.operations")


def make_processor(config: ImagesConfig, embed: Patches, start: Reading | None) -> ImageProcessor:
    """The processor of ``model.start``, or a new one, for images of the size of the model."""
    size, channels = embed.image, embed.channels
    mean, std = (_of_channels(getattr(config, key), channels, key) for key in NORMALISATION)
    if start is None:
        return ImageProcessor(size=size, mean=mean, std=std)
    for key, values in zip(NORMALISATION, (mean, std), strict=True):
        if key in config.model_fields_set and values != getattr(start, key):
            raise BadInput(f"images.{key} follows from model.start: leave it out")
    return cast(ImageProcessor, start).at_size(size)


def _of_channels(values: tuple[float, ...], channels: int, key: str) -> tuple[float, ...]:
    if len(values) not in (1, channels):
        raise BadInput(
            f"images.{key}: {len(values)} numbers, but the model reads {channels} channels"
        )
    return tuple(np.broadcast_to(values, channels).tolist())


def decoded_examples(
    config: ImagesConfig, processor: ImageProcessor, examples: list[LabelledExample]
) -> list[LabelledExample]:
    """Examples with decoded images in place of paths.

    They are returned unchanged if the images have more than ``MOST_KEPT`` bytes, or if there are no
    paths.
    """
    images = [example.texts[0] for example in examples]
    files = any(isinstance(image, Path) for image in images)
    if not files or math.prod(processor.shape) * len(images) > MOST_KEPT:
        return examples
    with DecodingPool(config.workers) as pool:
        decoded = [*pool.map(processor.resized, images)]
    return [
        replace(example, texts=(ResizedImage(pixels_CHW),))
        for example, pixels_CHW in zip(examples, decoded, strict=True)
    ]


def image_objective(
    config: ImagesConfig, labels: Objective, processor: ImageProcessor
) -> ImageLabels:
    """The objective over bytes of images."""
    augmentation = Augmentation(
        crop=config.crop,
        crop_area=config.crop_area,
        flip=config.flip,
        operations=config.operations,
        magnitude=config.magnitude,
        erase=config.erase,
    )
    return ImageLabels(labels, processor, augmentation, Mixing(config.mixup, config.cutmix))
