"""timm, also without torchvision: there is no build of that for every build of torch.

A stand-in has all names that timm imports. Of the transforms, those that evaluate a model work, on
images of Pillow; with torchvision installed the tests use the true ones.
"""

import sys
from enum import Enum
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

NAMES = (
    *("torchvision", "torchvision.datasets", "torchvision.models", "torchvision.ops"),
    *("torchvision.models.feature_extraction", "torchvision.ops.misc", "torchvision.utils"),
    *("torchvision.transforms", "torchvision.transforms.functional"),
)


def import_timm() -> Any:
    """The package with ``timm.data``; a test skips without it."""
    stand_ins = {} if _has_torchvision() else _stand_ins()
    sys.modules.update(stand_ins)
    try:
        pytest.importorskip("timm.data")
    finally:  # transformers asks whether there is a torchvision, and there is none
        for name in stand_ins:
            del sys.modules[name]
    return sys.modules["timm"]


def _has_torchvision() -> bool:
    try:
        import torchvision  # noqa: F401
    except (ImportError, RuntimeError):  # none, or one for another build of torch
        return False
    return True


class StandIn(ModuleType):
    """A module in which every name is a class without content."""

    __path__ = ()

    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


def _stand_ins() -> dict[str, ModuleType]:
    modules = {name: StandIn(name) for name in NAMES}
    functional = modules["torchvision.transforms.functional"]
    vars(functional).update(InterpolationMode=InterpolationMode, to_tensor=to_tensor)
    transforms = (Compose, Resize, CenterCrop, ToTensor, Normalize)
    vars(modules["torchvision.transforms"]).update({one.__name__: one for one in transforms})
    for name, module in modules.items():
        parent, _, own = name.rpartition(".")
        if parent:
            setattr(modules[parent], own, module)
    return modules


class InterpolationMode(Enum):
    NEAREST, BILINEAR, BICUBIC = "nearest", "bilinear", "bicubic"
    BOX, HAMMING, LANCZOS = "box", "hamming", "lanczos"


def to_tensor(image: Any) -> Tensor:
    """(C, H, W) numbers from 0 to 1."""
    return torch.from_numpy(np.array(image)).movedim(-1, 0).float() / 255


class ToTensor:
    pass


class Compose(list):
    def __call__(self, image: Any) -> Any:
        for transform in self:
            image = transform(image)
        return image


class Resize:
    """To (height, width), or the shorter side to a number; the longer one is rounded down."""

    def __init__(self, size: Any, interpolation: InterpolationMode):
        self.size, self.resample = size, interpolation.name

    def __call__(self, image: Any) -> Any:
        from PIL.Image import Resampling

        if isinstance(self.size, int):
            short = min(image.size)
            width, height = (self.size * side // short for side in image.size)
        else:
            height, width = self.size
        return image.resize((width, height), Resampling[self.resample])


class CenterCrop:
    """The middle of an image that is at least as large."""

    def __init__(self, size: Any):
        self.height, self.width = size

    def __call__(self, image: Any) -> Any:
        left, top = round((image.width - self.width) / 2), round((image.height - self.height) / 2)
        return image.crop((left, top, left + self.width, top + self.height))


class Normalize:
    def __init__(self, mean: Tensor, std: Tensor):
        self.mean, self.std = mean[:, None, None], std[:, None, None]

    def __call__(self, values: Tensor) -> Tensor:
        return (values - self.mean) / self.std
