"""Images as training examples: decoded ahead of time, by worker processes where they are files."""

import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from regard.data.counter_rng import streams
from regard.data.datasets.memory import MemoryDataset
from regard.data.images.decoding import DecodingPool
from regard.ground.batch import ImageRow


class ImageDataset(MemoryDataset):
    """Encoded examples, and the ``images`` of each: arrays of bytes, or paths of files.

    Files are decoded by so many ``workers``, or without any by the thread that reads ahead. The key
    of an image, which decides its augmentation, follows from (seed, epoch, index).
    """

    ahead: ClassVar[int] = 3

    def __init__(self, examples: Sequence[Any], images: Sequence[Any], seed: int, workers: int):
        super().__init__(examples)
        self.images, self.seed = images, seed
        self.workers = workers if any(isinstance(image, Path) for image in images) else 0
        self.pool = DecodingPool(self.workers, few=0)

    @property
    def fingerprint(self) -> str:
        """How many images, and a checksum of their content, or of the names and sizes of files."""
        checksum = 0
        for image, (_, target) in zip(self.images, self.examples, strict=True):
            checksum = zlib.crc32(_content(image) + np.asarray(target).tobytes(), checksum)
        return f"{len(self)} images, {checksum:08x}"

    def read(self, epoch: int, indices: np.ndarray) -> list[Any]:
        """Decoded, each with its key."""
        keys = streams((self.seed, epoch), indices).view(np.int64).tolist()
        rows = [self.examples[i][0] for i in indices]
        return [
            (ImageRow(_Pixels(pixels), key), self.examples[i][1])
            for pixels, key, i in zip(self.pool.map(_read, rows), keys, indices, strict=True)
        ]


class _Pixels:
    """Pixels that are there already."""

    def __init__(self, pixels: np.ndarray):
        self.pixels = pixels

    def __call__(self) -> np.ndarray:
        return self.pixels


def _read(row: ImageRow) -> np.ndarray:
    return row.read()


def _content(image: Any) -> bytes:
    if not isinstance(image, Path):
        return np.ascontiguousarray(image).tobytes()
    return f"{image}|{image.stat().st_size}".encode()
