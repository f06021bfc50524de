"""Dataset of images, which are decoded ahead of time; files by worker processes."""

import os
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from regard.core.batch import Ids, ImageRow, read_images
from regard.data.batches.memory_dataset import MemoryDataset
from regard.data.counter_rng import streams
from regard.images.decode import DecodingPool

MOST_KEPT = 1 << 30  # bytes of arrays that are resized only once
ImageExample = tuple[ImageRow, Ids]
Pixels = Path | np.ndarray  # a file, or bytes


@dataclass(frozen=True, eq=False)
class ImageExamples(Sequence[ImageExample]):
    """Examples (image, target) as arrays, without an object for every image."""

    pixels: np.ndarray  # (B, C, H, W)
    keys: np.ndarray
    targets: np.ndarray

    @classmethod
    def of(cls, examples: Sequence[ImageExample]) -> "ImageExamples":
        """Stack single examples (at least one) into arrays; their images are read here."""
        rows, targets = zip(*examples, strict=True)
        return cls(read_images(rows), np.array([row.key for row in rows]), np.array(targets))

    def __len__(self) -> int:
        return len(self.keys)

    def __getitem__(self, index: Any) -> Any:
        pixels = self.pixels[index]
        return ImageRow(lambda: pixels, int(self.keys[index])), self.targets[index]


class ImageDataset(MemoryDataset[ImageExample]):
    """Dataset of encoded examples and their ``images``: arrays of bytes, or paths of files.

    Files are decoded by ``workers`` processes, or, if 0, by the thread that reads ahead; arrays
    are resized once. The key of an image, which decides its augmentation, follows from (seed,
    epoch, index).
    """

    ahead: ClassVar[int] = 3
    counted: ClassVar[str] = "images"

    def __init__(
        self, examples: Sequence[ImageExample], images: Sequence[Pixels], seed: int, workers: int
    ):
        super().__init__(examples)
        self.images, self.seed = images, seed
        self.folders = {image.parent for image in images if isinstance(image, Path)}
        self.files = bool(self.folders)
        self.workers = workers if self.files else 0
        self.pool = DecodingPool(self.workers, few=0)

    @property
    def fingerprint(self) -> str:
        """Number of images, and a checksum of their content, or of the names and sizes of files.

        Names are relative to the common folder of all files.
        """
        root = (
            os.path.commonpath([folder.absolute() for folder in self.folders]) if self.files else ""
        )
        checksum = 0
        for image, (_, target) in zip(self.images, self.examples, strict=True):
            checksum = zlib.crc32(_content(image, root) + np.asarray(target).tobytes(), checksum)
        return f"{len(self)} images, {checksum:08x}"

    def read(self, epoch: int, indices: np.ndarray) -> ImageExamples:
        keys = streams((self.seed, epoch), indices).view(np.int64)
        return ImageExamples(self._decoded(indices), keys, self._targets[indices])

    def _decoded(self, indices: np.ndarray) -> np.ndarray:
        if self._arrays is not None:
            return self._arrays[indices]
        rows = [self.examples[i][0] for i in indices]
        return np.array([*self.pool.map(_read, rows)])  # of no images too

    @cached_property
    def _targets(self) -> np.ndarray:
        return np.array([target for _, target in self.examples])

    @cached_property
    def _arrays(self) -> np.ndarray | None:
        """All images, resized; None if they are files or need much memory."""
        if self.files or not len(self):
            return None
        first = self.examples[0][0].read()
        if first.nbytes * len(self) > MOST_KEPT:
            return None
        arrays = np.empty((len(self), *first.shape), first.dtype)
        for number, (row, _) in enumerate(self.examples):
            arrays[number] = row.read()
        return arrays


def _read(row: ImageRow) -> np.ndarray:
    return row.read()


def _content(image: Pixels, root: str) -> bytes:
    if not isinstance(image, Path):
        return np.ascontiguousarray(image).tobytes()
    return os.fsencode(image.absolute().relative_to(root)) + f"|{image.stat().st_size}".encode()
