"""Decoding of image files by Pillow: JPEG, PNG and WebP to RGB bytes (H, W, 3).

A photograph is turned as its EXIF data says, grey becomes three equal channels, and transparent
pixels are laid over white. A damaged file, or one that would unpack to an enormous picture, is
``BadInput`` with its name.
"""

import io
import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from regard.core.errors import BadInput, reason_of
from regard.core.files import read_bytes

if TYPE_CHECKING:
    from PIL.Image import Image

SUFFIXES = (".jpg", ".jpeg", ".png", ".webp")
FORMATS = ("JPEG", "PNG", "WEBP")
MOST_PIXELS = 89_478_485  # 256 MiB of RGB: larger ones are decompression bombs
MOST_BYTES = 1 << 27  # that a PNG or WebP may take in Pillow: one of 8K in colour just fits
BYTES = {**dict.fromkeys(("1", "L", "P"), 1), **dict.fromkeys(("LA", "PA", "I;16", "I;16B"), 2)}
LARGE, ENOUGH = 1 << 25, 4  # pixels of a JPEG, and times the target: see ``decode_picture``
STRIP = 1 << 20  # pixels that are converted at once
ORIENTATION, TURNED = 0x0112, (5, 6, 7, 8)  # the tag of EXIF, and its values of a quarter turn
Size = tuple[int, int]  # height, width
MISSING = "reading images needs the library Pillow: pip install 'regard[images]'"
UNKNOWN = "neither JPEG, PNG nor WebP, or its header is damaged"
DEEP_GREY = ("I;16", "I;16B", "I;16L", "I;16N")  # modes of 16 bits per pixel
GREY = np.array([0.299, 0.587, 0.114])  # the weights of red, green and blue (ITU-R 601-2)
UNSCALED = ("I", "F")  # modes of numbers of any size


def pillow() -> ModuleType:
    """Return the module ``PIL.Image``; refuse to go on without Pillow."""
    try:
        from PIL import Image
    except ImportError:
        raise BadInput(MISSING) from None
    return Image


def read_image(path: Path) -> np.ndarray:
    """Read the pixels of a file."""
    return decode_image(read_bytes(path), str(path))


def can_be_read(path: Path) -> bool:
    """Whether a file is an image without damage."""
    try:
        read_image(path)
    except BadInput:
        return False
    return True


def decode_image(content: bytes, where: str) -> np.ndarray:
    """Decode the bytes of a file into pixels."""
    with decode_picture(content, where) as (picture, _):
        return np.array(picture)


@contextmanager
def decode_picture(
    content: bytes, where: str, target: Callable[[Size], Size] | None = None
) -> Iterator[tuple["Image", Size]]:
    """Yield a Pillow image in three channels, and the height and width of the file.

    ``target`` gives the size to which it will be resized: a JPEG of more than ``LARGE`` pixels is
    decoded at a half, a quarter or an eighth of its size, if that is ``ENOUGH`` times the target.
    """
    library = pillow()
    with ExitStack() as stack:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                image = library.open(io.BytesIO(content), formats=FORMATS)
                if (pixels := math.prod(image.size)) > MOST_PIXELS:
                    size = "{:,} × {:,}".format(*image.size)
                    raise BadInput(f"{size} pixels, more than the limit of {MOST_PIXELS:,}")
                stack.enter_context(_budget.reserved(pixels))
                if image.format != "JPEG":  # which is decoded at a smaller size
                    check_memory(image)
                shape = _reduce(image, target)
                picture = as_rgb(image)
                picture.load()
                del image  # not kept while the picture is resized
        except BadInput as error:
            raise BadInput(f"{where}: {error}") from None
        except library.UnidentifiedImageError:
            raise BadInput(f"{where}: cannot be read as an image ({UNKNOWN})") from None
        except Exception as error:  # decoders of damaged files raise exceptions of any type
            raise BadInput(f"{where}: cannot be read as an image ({reason_of(error)})") from None
        yield picture, shape


def check_memory(image: "Image") -> None:
    """Refuse a picture that unpacks to more than ``MOST_BYTES``, as the header says.

    Pillow has 4 bytes for each pixel of three channels, and copies other modes to them.
    """
    copied = 0 if image.mode == "RGB" else 4
    needed = math.prod(image.size) * (BYTES.get(image.mode, 4) + copied)
    if needed > MOST_BYTES:
        size = "{:,} × {:,}".format(*image.size)
        memory = f"{needed >> 20:,} MiB to decode, more than the limit of {MOST_BYTES >> 20:,}"
        raise BadInput(f"{size} pixels of mode {image.mode} need {memory}")


class PixelBudget:
    """Limit of the pixels decoded at once; this base class has none: one image at a time."""

    @contextmanager
    def reserved(self, pixels: int) -> Iterator[None]:
        """Wait until this number of pixels fits, and reserve them during the block."""
        yield


_budget = PixelBudget()


def share_budget(budget: PixelBudget) -> None:
    """Set the budget of this process."""
    global _budget
    _budget = budget


def _reduce(image: "Image", target: Callable[[Size], Size] | None) -> Size:
    """Height and width of an upright image, which is decoded at a smaller size if it is large."""
    width, height = image.size
    turned = image.getexif().get(ORIENTATION, 1) in TURNED
    shape = (width, height) if turned else (height, width)
    if target is not None and image.format == "JPEG" and width * height > LARGE:
        high, wide = (ENOUGH * edge for edge in target(shape))
        image.draft(image.mode, (high, wide) if turned else (wide, high))
    return shape


def as_rgb(image: "Image") -> "Image":
    """Convert a Pillow image to an upright one in three channels."""
    from PIL import ImageOps

    deep_modes = (*DEEP_GREY, "I") if image.format == "PNG" else DEEP_GREY  # older Pillow's 16 bits
    if image.getexif().get(ORIENTATION, 1) != 1:  # else a copy
        image = ImageOps.exif_transpose(image)
    if image.mode in deep_modes:  # of which Pillow itself would keep the lowest byte
        image = _by_strips(image, "L", lambda strip: pillow().fromarray(_high_bytes(strip)))
    elif image.mode in UNSCALED:
        line = f"an image of mode {image.mode} has no defined white value"
        raise BadInput(f"{line}; convert it to bytes (L) or 16 bits (I;16)")
    if image.has_transparency_data:
        return _by_strips(image, "RGB", _over_white)
    return image if image.mode == "RGB" else image.convert("RGB")


def as_grey(picture: "Image") -> "Image":
    """Convert a colour image to one channel."""

    def grey(strip: "Image") -> "Image":
        return pillow().fromarray(np.rint(np.asarray(strip) @ GREY).astype(np.uint8))

    return _by_strips(picture, "L", grey)


def _by_strips(image: "Image", mode: str, convert: Callable[["Image"], "Image"]) -> "Image":
    """Convert an image a few rows at a time, because a conversion may take much memory."""
    width, height = image.size
    converted, rows = pillow().new(mode, image.size), max(1, STRIP // max(1, width))
    for top in range(0, height, rows):
        strip = image.crop((0, top, width, min(height, top + rows)))
        converted.paste(convert(strip), (0, top))
    return converted


def _high_bytes(strip: "Image") -> np.ndarray:
    """Convert numbers of 16 bits to bytes."""
    deep = np.asarray(strip, dtype=np.float64) / 257.0
    return np.clip(np.rint(deep), 0, 255).astype(np.uint8)


def _over_white(strip: "Image") -> "Image":
    library = pillow()
    over = library.new("RGBA", strip.size, "white")
    return library.alpha_composite(over, strip.convert("RGBA")).convert("RGB")
