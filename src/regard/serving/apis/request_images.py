"""Images of requests: counted by their headers, and decoded in a thread of their own."""

import base64
import io
import warnings
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial

import numpy as np

from regard.core.errors import BadInput, BadItem
from regard.images.decode import FORMATS, UNKNOWN, decode_image, pillow
from regard.serving.budgets import Budget
from regard.serving.request_threads import RequestThreads


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


class ImageDecoder:
    """Decoder of the images of requests, one after the other, with room for their pixels."""

    def __init__(self, most: int):
        self.pixels = Budget("pixels", most)
        self.threads = RequestThreads(1, "decode-images")

    @asynccontextmanager
    async def decoded(
        self, images: Sequence[EncodedImage]
    ) -> AsyncIterator[list[np.ndarray | BadItem]]:
        """Pixels of each image, a ``BadItem`` in place of a damaged one, during the block.

        Other requests do not wait, and a request without room for its pixels is refused.
        """
        with self.pixels.reserved(sum(image.pixels for image in images)):
            yield [
                await self.threads.run(partial(_decoded, number, image))
                for number, image in enumerate(images, 1)
            ]

    @asynccontextmanager
    async def decoded_one(self, image: EncodedImage) -> AsyncIterator[np.ndarray]:
        """Pixels of one image during the block; a damaged one is ``BadInput``."""
        async with self.decoded([image]) as (pixels,):
            if isinstance(pixels, BadItem):
                raise BadInput(pixels.reason)
            yield pixels


def _decoded(number: int, image: EncodedImage) -> np.ndarray | BadItem:
    try:
        return image.decoded()
    except BadInput as error:
        return BadItem(number, str(error))
