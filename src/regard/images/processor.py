"""Image processor: resizes, crops and normalises images by a preprocessor_config.json.

Pixel values equal ``ViTImageProcessor``'s with Pillow.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
from torch import Tensor

from regard.core.batch import ImageRow
from regard.core.errors import BadInput, BadItem, shown
from regard.core.files import read_bytes, read_json, write_json
from regard.core.reading import RowReading
from regard.images.decode import MOST_PIXELS, Size, as_grey, as_rgb, decode_picture, pillow

FILE = "preprocessor_config.json"
RESAMPLING = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic", 4: "box", 5: "hamming"}
REFUSED = ("do_pad", "do_flip_channel_order", "do_thumbnail", "crop_pct")  # unsupported steps
TYPE_KEYS = ("image_processor_type", "feature_extractor_type")  # the class of a configuration
DEIT = {"size": 256, "do_center_crop": True, "crop_size": 224, "resample": 3}  # its defaults
CROP_OFFSETS = {"floor": lambda rest: rest // 2, "round": lambda rest: round(rest / 2)}
NEEDED = (("do_resize", "size"), ("do_resize", "resample"), ("do_rescale", "rescale_factor"))
CHANNELS = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}  # modes of Pillow, some with transparency
NO_SIZE = "size must have height and width, or shortest_edge (and longest_edge), not {}"


@dataclass(frozen=True, eq=False)
class ResizedImage:
    """Bytes (C, H, W) of the size that a model reads, neither resized nor cropped again."""

    pixels_CHW: np.ndarray


if TYPE_CHECKING:
    from PIL.Image import Image

    ImageInput = str | Path | np.ndarray | Tensor | Image | ResizedImage


@dataclass(frozen=True)
class ImageProcessor(RowReading):
    """Processor that turns images into the pixel values of a model.

    Images are resized to ``size``, height and width (one number is the length of the shorter side,
    or less where the longer one would have more than ``longest_edge``), by the filter ``resample``
    of Pillow; then the centre is cropped to ``crop``, where ``crop_offset`` says how half a pixel
    is rounded: "floor" as ``transformers`` does, "round" (to the even number) as torchvision and
    ``timm`` do. Bytes are multiplied by ``scale``; then the ``mean`` of each channel is subtracted,
    and the result divided by ``std``. There is one channel, grey, or three.
    """

    name: ClassVar[str] = "images"
    FILES: ClassVar[tuple[str, ...]] = (FILE,)

    size: Size | int | None = (224, 224)
    mean: tuple[float, ...] = (0.5, 0.5, 0.5)
    std: tuple[float, ...] = (0.5, 0.5, 0.5)
    resample: int = 2
    crop: Size | None = None
    scale: float = 1 / 255
    crop_offset: str = "floor"
    longest_edge: int | None = None

    def __post_init__(self) -> None:
        if len(self.mean) != len(self.std) or len(self.mean) not in (1, 3):
            channels = f"{len(self.mean)} and {len(self.std)}"
            raise BadInput(
                f"image_mean and image_std must have one or three numbers each, not {channels}"
            )
        if not all(map(math.isfinite, (*self.mean, *self.std, self.scale))):
            raise BadInput("image_mean, image_std and rescale_factor must be finite numbers")
        if min(self.std) <= 0:
            raise BadInput("image_std must be above 0")
        if self.resample not in [*RESAMPLING]:
            known = ", ".join(f"{code} ({name})" for code, name in RESAMPLING.items())
            raise BadInput(f"resample is {self.resample!r}, not one of {known}")
        if self.crop_offset not in CROP_OFFSETS:
            known = " or ".join(CROP_OFFSETS)
            raise BadInput(f"crop_offset is {shown(self.crop_offset)}, not {known}")

    @property
    def channels(self) -> int:
        """Number of channels of the model's images."""
        return len(self.mean)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of the model's images."""
        size = self.crop or self.size
        if size is None or isinstance(size, int):
            raise BadInput("preprocessor_config.json: the size of images is not fixed")
        return (self.channels, *size)

    def at_size(self, image: Size) -> "ImageProcessor":
        """Processor for images of another size, with the same crop ratio."""
        if self.crop is None:
            return replace(self, size=image)
        height, width = (side / edge for side, edge in zip(image, self.crop, strict=True))
        size = self.size
        if isinstance(size, int):
            size = round(size * max(height, width))
        elif size is not None:
            size = round(size[0] * height), round(size[1] * width)
        longest = self.longest_edge and round(self.longest_edge * max(height, width))
        return replace(self, size=size, crop=image, longest_edge=longest)

    def check(self, known: Mapping[str, int], summaries: Collection[str | None]) -> None:
        if known.get("channels", self.channels) != self.channels:
            here = f"{self.channels} channels are normalised"
            raise BadInput(f"{here}, but the model reads {known['channels']}")

    def parse(self, line: str, where: str) -> Path:
        """The path in a line of a file."""
        return Path(line)

    def rows(self, images: Sequence["ImageInput"], max_length: int | None = None) -> list[ImageRow]:
        """Rows of images, with normalised pixel values.

        An image is a path, a picture of Pillow, bytes (H, W, C) or (H, W) in an array (the last of
        two or four channels is opacity), or an array or tensor of floats (C, H, W), which are used
        unchanged.
        """
        numbered = enumerate(images, start=1)
        return [ImageRow(partial(self._read, image, number)) for number, image in numbered]

    def training_rows(
        self, images: Sequence["ImageInput"], max_length: int | None = None
    ) -> list[ImageRow]:
        """Rows of images as bytes, which are augmented and normalised on the device."""
        return [ImageRow(partial(self.resized, image)) for image in images]

    def _read(self, image: "ImageInput", number: int) -> np.ndarray:
        try:
            if isinstance(image, Tensor):
                image = _array(image)
            array = cast(np.ndarray, image)
            if getattr(image, "ndim", 0) == 3 and np.issubdtype(array.dtype, np.floating):
                return _finite(np.asarray(image, np.float32))
            return self.normalised(self.resized(image))
        except BadInput as error:
            raise BadItem(number, str(error)) from None

    def normalised(self, pixels_CHW: np.ndarray) -> np.ndarray:
        """Normalised pixel values of bytes."""
        values_CHW = np.empty(pixels_CHW.shape, np.float32)
        for values_HW, pixels_HW, table in zip(values_CHW, pixels_CHW, self._tables, strict=True):
            np.take(table, pixels_HW, out=values_HW, mode="clip")
        return values_CHW

    @cached_property
    def _tables(self) -> np.ndarray:
        """Pixel value of each byte, by channel (C, 256)."""
        values = (np.arange(256, dtype=np.float64) * self.scale).astype(np.float32)
        mean, std = (np.array(column, np.float32)[:, None] for column in (self.mean, self.std))
        return (values - mean) / std

    def denormalised(self, values_CHW: np.ndarray) -> np.ndarray:
        """Bytes (H, W, C) of normalised pixel values, for display."""
        mean, std = (np.array(column)[:, None, None] for column in (self.mean, self.std))
        bytes_CHW = np.rint((values_CHW * std + mean) / self.scale)
        return np.clip(bytes_CHW, 0, 255).astype(np.uint8).transpose(1, 2, 0)

    def resized(self, image: "ImageInput") -> np.ndarray:
        """Bytes (C, H, W) of an image in the model's size."""
        if isinstance(image, ResizedImage):
            return image.pixels_CHW
        if isinstance(image, str | Path):
            path = Path(image)
            with decode_picture(read_bytes(path), str(path), self._target) as (picture, shape):
                pixels = self._of_picture(picture, shape)
        elif type(image).__module__.startswith("PIL."):
            pixels = self._of_picture(picture := as_rgb(cast("Image", image)), picture.size[::-1])
        else:
            pixels = self._of_array(_bytes(image))
        if self.crop is not None:
            pixels = _middle(pixels, self.crop, CROP_OFFSETS[self.crop_offset])
        return np.ascontiguousarray(pixels.transpose(2, 0, 1))

    def _of_picture(self, picture: "Image", shape: Size) -> np.ndarray:
        """Bytes (H, W, C) of a Pillow image, resized by the rule for an image of this shape."""
        if self.channels == 1 and picture.mode == "RGB":
            picture = as_grey(picture)
        if self.channels == 3 and picture.mode == "L":
            picture = picture.convert("RGB")
        target = self._target(shape)
        if target[::-1] != picture.size:
            if not 1 <= target[0] * target[1] <= MOST_PIXELS:  # a very long image, or bad settings
                raise BadInput(f"it would be resized to {target[0]:,} × {target[1]:,} pixels")
            picture = picture.resize(target[::-1], self.resample)
        return np.array(picture).reshape(*target, -1)

    def _of_array(self, pixels: np.ndarray) -> np.ndarray:
        """Bytes (H, W, C), resized."""
        shape, channels = pixels.shape[:2], pixels.shape[2]
        if channels == self.channels and self._target(shape) == shape:
            return pixels
        picture = pillow().fromarray(pixels.squeeze(2) if channels == 1 else pixels)
        return self._of_picture(as_rgb(picture) if channels in (2, 4) else picture, shape)

    def _target(self, shape: tuple[int, ...]) -> Size:
        """Height and width after resizing."""
        if self.size is None:
            return shape[0], shape[1]
        if not isinstance(self.size, int):
            return self.size
        shorter, exact, most = min(shape), float(self.size), self.longest_edge or math.inf
        if max(shape) / shorter * exact > most:
            exact = most * shorter / max(shape)
        if (rounded := round(exact)) == shorter:
            return shape[0], shape[1]
        height, width = (rounded if s == shorter else int(exact * s / shorter) for s in shape)
        return height, width

    def save(self, folder: Path) -> None:
        """Write preprocessor_config.json."""
        write_json(folder / FILE, self.config())

    def config(self) -> dict[str, object]:
        """The content of preprocessor_config.json."""
        crop = {} if self.crop is None else {"crop_size": _size_config(self.crop)}
        return {
            "image_processor_type": "ViTImageProcessor",
            "do_resize": self.size is not None,
            "size": _size_config(self.size, self.longest_edge),
            "resample": self.resample,
            **({"do_center_crop": True} if crop else {}),
            **crop,
            **({"crop_offset": self.crop_offset} if crop and self.crop_offset != "floor" else {}),
            "do_rescale": self.scale != 1.0,
            "rescale_factor": self.scale,
            "do_normalize": True,
            "image_mean": [*self.mean],
            "image_std": [*self.std],
        }

    @classmethod
    def load(cls, folder: Path) -> "ImageProcessor | None":
        """Read the processor of a folder; None if it has none."""
        path = folder / FILE
        return cls.of_config(read_json(path), str(path)) if path.exists() else None

    @classmethod
    def of_config(cls, config: Mapping[str, Any], where: str) -> "ImageProcessor":
        """Processor of a preprocessor_config.json."""
        if any(str(config.get(key)).startswith("DeiT") for key in TYPE_KEYS):
            config = {**DEIT, **config}
        if wrong := next((key for key in REFUSED if config.get(key)), None):
            raise BadInput(f"{where}: {wrong} is not supported")
        for step, key in NEEDED:
            if config.get(step, True) and config.get(key, ...) is None:
                raise BadInput(f"{where}: {key} is null, but {step} needs it")
        config = {key: config[key] for key in config if config[key] is not None or key[:3] == "do_"}
        try:
            mean, std = _normalisation(config)
            if not config.get("do_normalize", True):
                mean, std = [0.0] * len(mean), [1.0] * len(mean)
            edges, crop = _edges(config.get("size", 224)), _size(_edges(config.get("crop_size")))
            longest = edges.pop("longest_edge", None) if "shortest_edge" in edges else None
            size, resized = _size(edges), config.get("do_resize", True)
            rescaled = config.get("do_rescale", True)
            return cls(
                size=size if resized else None,
                mean=tuple(map(float, mean)),
                std=tuple(map(float, std)),
                resample=config.get("resample", 2),
                crop=_square(crop) if config.get("do_center_crop") else None,
                scale=float(config.get("rescale_factor", 1 / 255)) if rescaled else 1.0,
                crop_offset=config.get("crop_offset", "floor"),
                longest_edge=longest if resized else None,
            )
        except (BadInput, TypeError, ValueError, KeyError) as error:
            raise BadInput(f"{where}: {error}") from None


def _edges(size: object) -> dict[str, int]:
    """Edge lengths by their names in a configuration; a number is both edges of a square."""
    if size is None:
        return {}
    if isinstance(size, list) and len(size) == 2:
        size = dict(zip(("height", "width"), size, strict=True))
    if not isinstance(size, Mapping):
        return dict.fromkeys(("height", "width"), _edge(size))
    edges = {key: _edge(value) for key, value in size.items() if value is not None}
    if not edges:
        raise BadInput(NO_SIZE.format("nothing"))
    return edges


def _size(edges: Mapping[str, int]) -> Size | int | None:
    """Height and width, or the length of the shorter side."""
    if not edges:
        return None
    if edges.keys() == {"shortest_edge"}:
        return edges["shortest_edge"]
    if edges.keys() == {"height", "width"}:
        return edges["height"], edges["width"]
    raise BadInput(NO_SIZE.format(" and ".join(edges)))


def _normalisation(config: Mapping[str, Any]) -> list[list[float]]:
    """Mean and standard deviation of each channel; a single number applies to all channels."""
    values = [config.get(key, 0.5) for key in ("image_mean", "image_std")]
    channels = max(np.size(value) if np.ndim(value) else 0 for value in values) or 3
    return [value if np.ndim(value) else [value] * channels for value in values]


def _size_config(size: Size | int | None, longest: int | None = None) -> dict[str, int] | None:
    """Edge lengths by their names in a configuration."""
    if size is None:
        return None
    if isinstance(size, int):
        return {"shortest_edge": size} | ({} if longest is None else {"longest_edge": longest})
    return {"height": size[0], "width": size[1]}


def _square(size: Size | int | None) -> Size | None:
    return (size, size) if isinstance(size, int) else size


def _edge(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 65_536:
        raise BadInput(f"size: {shown(value)} is not a number of pixels from 1 to 65,536")
    return value


def _array(tensor: Tensor) -> np.ndarray:
    """Array of a tensor of any device and precision; numpy has no bfloat16."""
    values = tensor.float() if tensor.is_floating_point() else tensor
    return values.numpy(force=True)


def _finite(values_CHW: np.ndarray) -> np.ndarray:
    """Return pixel values; refuse an empty image and values that are not finite."""
    if not values_CHW.size:
        raise BadInput(f"{shown(values_CHW)} has no pixels")
    if not np.isfinite(values_CHW).all():
        raise BadInput("the image has pixel values that are not finite")
    return values_CHW


def _bytes(image: object) -> np.ndarray:
    """The bytes (H, W, C) of an array, which may have no axis of channels."""
    array = np.asarray(image)
    array = array[..., None] if array.ndim == 2 else array
    if array.dtype != np.uint8 or array.ndim != 3 or array.shape[2] not in CHANNELS:
        raise BadInput(f"{shown(image)} is not an image: give a path or bytes (H, W, C)")
    if not array.size:
        raise BadInput(f"{shown(image)} has no pixels")
    return array


def _middle(pixels: np.ndarray, crop: Size, offset: Callable[[int], int]) -> np.ndarray:
    rest = [size - edge for size, edge in zip(pixels.shape, crop, strict=False)]
    if min(rest) < 0:
        sizes = " × ".join(map(str, pixels.shape[:2])), " × ".join(map(str, crop))
        raise BadInput(f"an image of {sizes[0]} pixels is smaller than its crop of {sizes[1]}")
    top, left = map(offset, rest)
    return pixels[top : top + crop[0], left : left + crop[1]]
