"""Images of requests: counted by their headers, and decoded in a thread of their own."""

import asyncio
import base64
import io
import warnings
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager

import numpy as np

from regard.ground.errors import BadInput, BadItem
from regard.images.decode import FORMATS, UNKNOWN, decode_image, pillow
from regard.serving.errors import Overloaded, TooLarge

AT_ONCE = 4  # requests of the most pixels that are answered at the same time
DECODING = ThreadPoolExecutor(1, "decode-images")


class EncodedImage:
    """The bytes of a file, and its pixels by its header, which are at most ``most``."""

    def __init__(self, content: bytes, most: int):
        self.content = content
        height, width = _size(content)
        self.pixels = height * width
        if self.pixels > most:
            raise BadInput(f"image: {height} × {width} pixels are more than {most}")

    @classmethod
    def of_text(cls, text: object, most: int) -> "EncodedImage":
        """An image in base64."""
        if not isinstance(text, str):
            raise BadInput("image: write the bytes of a file in base64")
        try:
            content = base64.b64decode(text.partition("base64,")[2] or text, validate=True)
        except ValueError:
            raise BadInput("image: not base64") from None
        return cls(content, most)

    def decoded(self) -> np.ndarray:
        """Pixels (H, W, 3)."""
        return decode_image(self.content, "image")


def _size(content: bytes) -> tuple[int, int]:
    """Height and width of an image by its header."""
    library = pillow()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with library.open(io.BytesIO(content), formats=FORMATS) as image:
                width, height = image.size
    except Exception:  # decoders of damaged files raise exceptions of any type
        raise BadInput(f"image: cannot be read as an image ({UNKNOWN})") from None
    return height, width


class PixelRoom:
    """Room for the pixels of one request (``most``), and of all that are being answered."""

    def __init__(self, most: int):
        self.most, self.used = most, 0

    @contextmanager
    def reserved(self, images: Sequence[EncodedImage]) -> Iterator[None]:
        """Reserve the pixels of a request during the block, or refuse it."""
        pixels = sum(image.pixels for image in images)
        if pixels > self.most:
            raise TooLarge(f"{pixels} pixels are more than the {self.most} of a request")
        if self.used + pixels > AT_ONCE * self.most:
            raise Overloaded("too many images wait; try again later", 1)
        self.used += pixels
        try:
            yield
        finally:
            self.used -= pixels


async def decode_all(images: Sequence[EncodedImage]) -> list[np.ndarray | BadItem]:
    """Pixels of each image, a ``BadItem`` in place of a damaged one; other requests do not wait."""
    loop = asyncio.get_running_loop()
    return [
        await loop.run_in_executor(DECODING, _decoded, number, image)
        for number, image in enumerate(images, 1)
    ]


@asynccontextmanager
async def decoded_image(image: EncodedImage, room: PixelRoom) -> AsyncIterator[np.ndarray]:
    """Pixels of one image, with room for them during the block; a damaged one is ``BadInput``."""
    with room.reserved([image]):
        (pixels,) = await decode_all([image])
        if isinstance(pixels, BadItem):
            raise BadInput(pixels.reason)
        yield pixels


def _decoded(number: int, image: EncodedImage) -> np.ndarray | BadItem:
    try:
        return image.decoded()
    except BadInput as error:
        return BadItem(number, str(error))
