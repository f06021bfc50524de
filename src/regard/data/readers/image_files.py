"""Readers of labelled images: folders of classes, tables of paths, array files.

Files are only listed here, and decoded when they are needed. If bad examples may be left out, each
file is decoded once by several processes, to find damaged ones beforehand.
"""

import gzip
import math
import os
import zlib
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from regard.core.errors import BadInput, reason_of
from regard.core.files import check_regular, read_bytes, reading
from regard.data.readers.examples import LabelledExample
from regard.data.readers.fields import BadExample, Dropped, filled, parsed
from regard.data.readers.table_files import Column, Csv, read_cells
from regard.images.decode import SUFFIXES, DecodingPool, can_be_read, default_workers

IDX_BYTES = 0x08  # the type of an idx file whose numbers are unsigned bytes
CIFAR_SIZE = 32
DIGITS_TEST = 6  # one in this many of scikit-learn's digits belongs to the test set


def image_folder(path: Path, dropped: Dropped = None) -> Iterator[LabelledExample]:
    """Read a folder with a subfolder for each class, which may have subfolders itself."""
    with reading(path):
        folders = (folder for folder in path.iterdir() if not _hidden(folder.name))
        classes = sorted(filter(Path.is_dir, folders))
    pairs = ((folder, file) for folder in classes for file in _files_or_none(folder))
    files = ((str(file or folder), (file, folder.name)) for folder, file in pairs)

    def parse(where: str, labelled: tuple[Path | None, str]) -> LabelledExample:
        file, label = labelled
        if file is None:
            raise BadExample(where, "classes without images", "no JPEG, PNG or WebP in this folder")
        return _example(where, file, label)

    return _undamaged(parsed(files, parse, dropped), dropped)


def image_files(folder: Path) -> Iterator[Path]:
    """Images in a folder and its subfolders, sorted by name; one folder is listed at a time.

    Links to folders are not followed, and hidden files and folders (".…") are left out.
    """
    folders, names = set[str](), list[str]()
    with reading(folder), os.scandir(folder) as entries:
        for entry in entries:
            if _hidden(entry.name):
                continue
            if entry.is_dir(follow_symlinks=False):
                folders.add(entry.name)
            elif not entry.name.lower().endswith(SUFFIXES):
                continue
            names.append(entry.name)
    for name in sorted(names):
        yield from image_files(folder / name) if name in folders else (folder / name,)


def _files_or_none(folder: Path) -> Iterator[Path | None]:
    """Images in a folder and its subfolders; None if there are none."""
    files = image_files(folder)
    return chain([next(files, None)], files)


def _hidden(name: str) -> bool:
    return name.startswith(".")


def image_csv(
    path: Path, dropped: Dropped = None, image: Column = "image", label: Column = "label"
) -> Iterator[LabelledExample]:
    """Read two columns of a comma-separated file: paths relative to its folder, and labels."""

    def parse(where: str, cells: tuple[str, ...]) -> LabelledExample:
        name, of_image = (filled(cell, where).strip() for cell in cells)
        return _example(where, path.parent / name, of_image)

    cells = read_cells(Csv(str(path), (image, label)), dropped)
    return _undamaged(parsed(cells, parse, dropped), dropped)


def npz(
    path: Path,
    dropped: Dropped = None,
    images: str = "x_train",
    labels: str = "y_train",
    names: tuple[str, ...] = (),
) -> Iterator[LabelledExample]:
    """Read two arrays of a numpy archive: bytes (N, H, W, C) or (N, H, W), and class indices.

    Labels are the ``names`` of the classes, or else the indices.
    """
    check_regular(path)
    try:
        with np.load(path, allow_pickle=False) as arrays:
            missing = [name for name in (images, labels) if name not in arrays]
            if missing:
                raise BadInput(f"no array is called {missing[0]!r}, only {', '.join(arrays)}")
            pixels, numbers = arrays[images], arrays[labels]
    except Exception as error:  # damaged archives raise exceptions of any type
        raise BadInput(f"{path}: cannot be read as npz ({reason_of(error)})") from None
    return _arrays(path, pixels, numbers, names)


def idx(
    path: Path, dropped: Dropped = None, labels: str = "", names: tuple[str, ...] = ()
) -> Iterator[LabelledExample]:
    """Read images in MNIST's format; default: labels from the file with "labels" in its name."""
    beside = path.name.replace("images-idx3", "labels-idx1").replace("images.idx3", "labels.idx1")
    pixels = _read_idx(path, 3)
    if not labels and beside == path.name:
        raise BadInput(f"{path}: name the file of its labels in options.labels")
    return _arrays(path, pixels, _read_idx(path.parent / (labels or beside), 1), names)


def cifar(
    path: Path, dropped: Dropped = None, names: tuple[str, ...] = (), coarse: bool = False
) -> Iterator[LabelledExample]:
    """Read CIFAR-10 or CIFAR-100 in its binary version: a file, or a folder of training batches.

    CIFAR-100 has a fine and a coarse label per image: the fine one is read, or the ``coarse`` one.
    """
    files = sorted([*path.glob("data_batch_*.bin"), *path.glob("train.bin")])
    files = files if path.is_dir() else [path]
    if not files:
        raise BadInput(f"{path}: no data_batch_*.bin and no train.bin in this folder")
    hundred = files[0].name in ("train.bin", "test.bin")
    meta = ("coarse_label_names.txt" if coarse else "fine_label_names.txt") if hundred else ""
    known = files[0].parent / (meta or "batches.meta.txt")
    if not names and known.exists():
        names = tuple(read_bytes(known).decode(errors="replace").split())
    for file in files:
        yield from _cifar_file(file, 1 + hundred, int(hundred and not coarse), names)


def digits(path: Path, dropped: Dropped = None, part: str = "train") -> Iterator[LabelledExample]:
    """Read the 1,797 digits of scikit-learn, 8 × 8 grey pixels; one in six is in part "test"."""
    if part not in ("train", "test"):
        raise BadInput(f"options.part must be 'train' or 'test', not {part!r}")
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise BadInput("the reader digits needs scikit-learn: pip install scikit-learn") from None
    dataset: Any = load_digits()
    pixels = np.rint(dataset.images * (255 / 16)).astype(np.uint8)
    chosen = (np.arange(len(pixels)) % DIGITS_TEST == 0) == (part == "test")
    return _arrays(Path("digits"), pixels[chosen], dataset.target[chosen], ())


def _example(where: str, path: Path, label: str) -> LabelledExample:
    if not path.is_file():
        raise BadExample(where, "missing images", f"{path}: no such file")
    return LabelledExample(where, (path,), (label,))


def _undamaged(examples: Iterator[LabelledExample], dropped: Dropped) -> Iterator[LabelledExample]:
    """All examples; with ``dropped``, damaged files are left out and counted."""
    if dropped is None:
        yield from examples
        return
    waiting = deque[LabelledExample]()

    def paths() -> Iterator[Path]:
        for example in examples:
            waiting.append(example)
            yield example.texts[0]

    with DecodingPool(default_workers()) as pool:
        for good in pool.map(can_be_read, paths()):
            example = waiting.popleft()
            if good:
                yield example
            else:
                dropped["damaged images"] += 1


def _arrays(
    path: Path, pixels: np.ndarray, numbers: np.ndarray, names: Sequence[str]
) -> Iterator[LabelledExample]:
    """Yield an example for each image of an array."""
    if pixels.dtype != np.uint8 or pixels.ndim not in (3, 4) or pixels.shape[3:] not in _CHANNELS:
        shape = f"{pixels.dtype} {list(pixels.shape)}"
        raise BadInput(
            f"{path}: {shape} is not an array of images: bytes (N, H, W) or (N, H, W, 3)"
        )
    numbers = numbers.reshape(-1)
    if len(pixels) and not pixels[0].size:
        raise BadInput(f"{path}: images {list(pixels.shape[1:])} have no pixels")
    if not np.issubdtype(numbers.dtype, np.integer):
        raise BadInput(f"{path}: labels must be integers (class indices), not {numbers.dtype}")
    if len(numbers) != len(pixels):
        raise BadInput(f"{path}: {len(pixels)} images, but {len(numbers)} labels")
    if names and len(numbers) and not 0 <= numbers.min() <= numbers.max() < len(names):
        labels = f"labels from {numbers.min()} to {numbers.max()}"
        raise BadInput(f"{path}: {labels}, but only {len(names)} names")
    for row, (image, number) in enumerate(zip(pixels, numbers.tolist(), strict=True), start=1):
        label = names[number] if names else str(number)
        yield LabelledExample(f"{path}:{row}", (image,), (label,))


_CHANNELS = ((), (1,), (3,))


def _cifar_file(
    path: Path, labels: int, which: int, names: Sequence[str]
) -> Iterator[LabelledExample]:
    content = np.frombuffer(read_bytes(path), np.uint8)
    size = labels + 3 * CIFAR_SIZE**2
    if not len(content) or len(content) % size:
        raise BadInput(
            f"{path}: {len(content):,} bytes are not a multiple of the record size, {size:,}"
        )
    records = content.reshape(-1, size)
    pixels = records[:, labels:].reshape(-1, 3, CIFAR_SIZE, CIFAR_SIZE).transpose(0, 2, 3, 1)
    return _arrays(path, pixels, records[:, which], names)


def _read_idx(path: Path, axes: int) -> np.ndarray:
    content = read_bytes(path)
    try:
        content = gzip.decompress(content) if path.suffix == ".gz" else content
    except (OSError, EOFError, zlib.error) as error:
        raise BadInput(f"{path}: cannot be read as gzip ({reason_of(error)})") from None
    start = 4 + 4 * axes
    if content[:4] != bytes([0, 0, IDX_BYTES, axes]) or len(content) < start:
        raise BadInput(f"{path}: not an idx file of bytes with {axes} axes")
    shape = tuple(np.frombuffer(content, ">u4", axes, 4).tolist())
    if len(content) != start + math.prod(shape):
        raise BadInput(
            f"{path}: {len(content) - start:,} bytes do not have the shape {shape} of the header"
        )
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)
