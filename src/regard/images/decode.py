"""Images from files, by Pillow: JPEG, PNG and WebP as RGB bytes (H, W, 3).

A photograph is turned as its EXIF data says, grey becomes three equal channels, and transparent
pixels are laid over white. A damaged file, or one that would unpack to an enormous picture, is
``BadInput`` with its name.
"""

import io
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from regard.ground.errors import BadInput, reason_of
from regard.ground.files import read_bytes

SUFFIXES = (".jpg", ".jpeg", ".png", ".webp")
FORMATS = ("JPEG", "PNG", "WEBP")
MOST_PIXELS = 89_478_485  # 256 MiB of RGB: larger ones are decompression bombs
MISSING = "Pillow is missing, which reads images: pip install 'regard[images]'"
UNKNOWN = "neither JPEG, PNG nor WebP, or its header is damaged"
DEEP_GREY = ("I;16", "I;16B", "I;16L", "I;16N")  # modes of 16 bits per pixel
UNSCALED = ("I", "F")  # modes of numbers of any size


def pillow() -> Any:
    """The module ``PIL.Image``."""
    try:
        from PIL import Image
    except ImportError:
        raise BadInput(MISSING) from None
    return Image


def read_image(path: Path) -> np.ndarray:
    """The pixels of a file."""
    return decode_image(read_bytes(path), str(path))


def can_be_read(path: Path) -> bool:
    """Whether a file is an image without damage."""
    try:
        read_image(path)
    except BadInput:
        return False
    return True


def decode_image(content: bytes, where: str) -> np.ndarray:
    """The pixels in the bytes of a file."""
    library = pillow()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with library.open(io.BytesIO(content), formats=FORMATS) as image:
                _check_size(image)
                return np.array(as_rgb(image))
    except BadInput as error:
        raise BadInput(f"{where}: {error}") from None
    except library.UnidentifiedImageError:
        raise BadInput(f"{where}: no image that can be read ({UNKNOWN})") from None
    except Exception as error:  # decoders of damaged files raise exceptions of any type
        raise BadInput(f"{where}: no image that can be read ({reason_of(error)})") from None


def _check_size(image: Any) -> None:
    width, height = image.size
    if width * height > MOST_PIXELS:
        raise BadInput(f"{width:,} × {height:,} pixels, more than {MOST_PIXELS:,} in all")


def as_rgb(image: Any) -> Any:
    """A picture of Pillow, upright, in three channels."""
    from PIL import Image, ImageOps

    deep_modes = (*DEEP_GREY, "I") if image.format == "PNG" else DEEP_GREY  # older Pillow's 16 bits
    image = ImageOps.exif_transpose(image)
    if image.mode in deep_modes:  # of which Pillow itself would keep the lowest byte
        deep = np.asarray(image, dtype=np.float64) / 257.0
        image = Image.fromarray(np.clip(np.rint(deep), 0, 255).astype(np.uint8))
    elif image.mode in UNSCALED:
        line = f"a picture of mode {image.mode}: which number is white is not known"
        raise BadInput(f"{line}; convert it to bytes (L) or 16 bits (I;16)")
    if image.has_transparency_data:
        over = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(over, image.convert("RGBA"))
    return image.convert("RGB")
