"""The table of recipes that says how images are read and augmented."""

from typing import Annotated

from pydantic import Field

from regard.ground.config import Config

Share = Annotated[float, Field(ge=0, le=1)]


class ImagesConfig(Config):
    """How images are normalised, and what is drawn of them in training.

    They are resized to the size that the model reads. Augmentation runs on the device, in the order
    of the keys.
    """

    mean: tuple[float, ...] = (0.5,)
    """The mean of each channel, of numbers from 0 to 1, or one for all."""
    std: tuple[Annotated[float, Field(gt=0)], ...] = (0.5,)
    """The standard deviation of each channel, or one for all."""
    workers: int = Field(4, ge=0)
    """Processes that decode files; 0: the training process does."""
    crop: int = Field(0, ge=0)
    """Random crops: images are moved by up to so many pixels, with zeros around them."""
    crop_area: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Random resized crops: the smallest share of the area of a resized image that is stretched to
    all of it."""
    flip: bool = False
    """Half of the images are mirrored, left to right."""
    operations: int = Field(0, ge=0)
    """RandAugment (arXiv:1909.13719): so many operations on each image, one after the other."""
    magnitude: Share = 0.5
    """Their strength, of the largest."""
    erase: Share = 0.0
    """The rate of random erasing (arXiv:1708.04896)."""
    mixup: float = Field(0.0, ge=0)
    """The α of mixup (arXiv:1710.09412); 0: none."""
    cutmix: float = Field(0.0, ge=0)
    """The α of CutMix (arXiv:1905.04899); 0: none. With both, each image has one of them."""
