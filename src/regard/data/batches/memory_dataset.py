"""Datasets in memory: encoded rows, texts that are tokenised in every epoch, or images.

Images are decoded ahead of time; files by worker processes.
"""

import os
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np

from regard.core.batch import Ids, ImageRow, TokenRow, read_images
from regard.data.batches.sampler import Collator, Dataset
from regard.data.counter_rng import streams, uniform
from regard.images.decode import DecodingPool
from regard.text.tokenizers.row_tokenizer import RowTokenizer

Item = TypeVar("Item", bound=tuple)
Target = TypeVar("Target")
Rows = TokenRow | Sequence[TokenRow]  # of an example: one, or several


class MemoryDataset(Dataset[Item], Sequence[Item]):
    """Dataset of encoded examples: a row, or several, and a target."""

    def __init__(self, examples: Sequence[Item]):
        self.examples = examples
        self._sizes = lru_cache(maxsize=1)(self._measure)  # of one objective

    def __len__(self) -> int:
        return len(self.examples)

    def __getitem__(self, index: Any) -> Any:
        return self.examples[index]

    @property
    def fingerprint(self) -> str:
        checksum = reduce(lambda crc, pair: zlib.crc32(_content(*pair), crc), self.examples, 0)
        return f"{len(self)} rows, {checksum:08x}"

    def read(self, epoch: int, indices: np.ndarray) -> Sequence[Item]:
        return [self.examples[i] for i in indices]

    def lengths(self, objective: Collator, epoch: int, indices: np.ndarray) -> np.ndarray | None:
        return self._sizes(objective)[0][indices]

    def weights(self, objective: Collator, epoch: int, indices: np.ndarray) -> np.ndarray | None:
        return self._sizes(objective)[1][indices]

    def _measure(self, objective: Collator[Item]) -> tuple[np.ndarray, np.ndarray]:
        lengths = np.array([objective.length(example) for example in self.examples])
        return lengths, np.array([objective.weight(example) for example in self.examples])


class BPEDropoutRows(MemoryDataset[tuple[TokenRow, Target]]):
    """Dataset with BPE-dropout (Provilkov et al., 2020): encoded examples, and their ``texts``.

    Rows are truncated to ``longest``, if given. Segmentations depend only on (seed, epoch, index,
    number of the text).
    """

    def __init__(
        self,
        examples: Sequence[tuple[TokenRow, Target]],
        texts: Sequence[Sequence[str]],
        tokenizer: RowTokenizer,
        rate: float,
        seed: int,
        longest: int | None = None,
    ):
        super().__init__(examples)
        self.texts, self.tokenizer, self.rate, self.seed = texts, tokenizer, rate, seed
        self.longest = longest

    def read(self, epoch: int, indices: np.ndarray) -> list[tuple[TokenRow, Target]]:
        return [(self._segment(epoch, int(index)), self.examples[index][1]) for index in indices]

    def _segment(self, epoch: int, index: int) -> TokenRow:
        encode, key = self.tokenizer.words.encode_dropped, (self.seed, epoch, index)
        texts = enumerate(self.texts[index])
        ids = [encode(text, self.rate, (*key, number)) for number, text in texts]
        return self.tokenizer.row(ids[0], ids[1] if len(ids) > 1 else None, self.longest)

    lengths, weights = Dataset.lengths, Dataset.weights  # are known after tokenising


class UnknownWordRows(MemoryDataset[tuple[Rows, Target]]):
    """Dataset in which words that occur once are replaced by the ``unknown`` word at a given rate.

    The vector of unknown words is thus learned from rare ones (Lample et al., 2016). The characters
    of a word stay. Draws depend only on (seed, epoch, index).
    """

    def __init__(
        self, examples: Sequence[tuple[Rows, Target]], unknown: int, rate: float, seed: int
    ):
        super().__init__(examples)
        self.unknown, self.rate, self.seed = unknown, rate, seed
        every = (_words(row) for rows, _ in examples for row in _listed(rows))
        self.once_V = np.bincount(np.concatenate([*every])) == 1

    def read(self, epoch: int, indices: np.ndarray) -> list[tuple[Rows, Target]]:
        streams_N = streams((self.seed, epoch), indices)
        pairs = zip(indices, streams_N, strict=True)
        return [self._without_rare(self.examples[i], stream) for i, stream in pairs]

    def _without_rare(self, pair: tuple[Rows, Target], stream: np.ndarray) -> tuple[Rows, Target]:
        rows, target = pair
        several, drawn, before = _listed(rows), list[TokenRow](), 0
        for row in several:
            words_T, tokens = _words(row), np.array(row.tokens)
            drawn_T = uniform(stream, before + np.arange(len(words_T))) < self.rate
            tokens.reshape(len(tokens), -1)[self.once_V[words_T] & drawn_T, 0] = self.unknown
            drawn.append(row._replace(tokens=tokens))
            before += len(words_T)
        return (drawn if several is rows else drawn[0]), target


def _listed(rows: Rows) -> Sequence[TokenRow]:
    """The rows of an example: one, or several."""
    return [rows] if isinstance(rows, TokenRow) else rows


def _words(row: TokenRow) -> np.ndarray:
    """The ids of the words of a row, without the ids of their characters."""
    return np.reshape(row.tokens, (len(row.tokens), -1))[:, 0]


def _content(rows: Rows, target: object) -> bytes:
    """Bytes of an example, the same in every process."""
    parts = chain(*_listed(rows), [target])
    return b"|".join(map(_bytes, parts))


def _bytes(part: object) -> bytes:
    """Bytes of an array; of an array of objects, its ``repr`` (their bytes are addresses)."""
    array = np.asarray(part)
    return repr(part).encode() if array.dtype.hasobject else array.tobytes()


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
            checksum = zlib.crc32(
                _image_content(image, root) + np.asarray(target).tobytes(), checksum
            )
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


def _image_content(image: Pixels, root: str) -> bytes:
    if not isinstance(image, Path):
        return np.ascontiguousarray(image).tobytes()
    return os.fsencode(image.absolute().relative_to(root)) + f"|{image.stat().st_size}".encode()
