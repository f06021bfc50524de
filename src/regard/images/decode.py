"""Decoding of image files by Pillow: JPEG, PNG and WebP to RGB bytes (H, W, 3).

A photograph is turned as its EXIF data says, grey becomes three equal channels, and transparent
pixels are laid over white. A damaged file, or one that would unpack to an enormous picture, is
``BadInput`` with its name. A pool of worker processes decodes images in order, ahead of the model.
"""

import io
import math
import os
import signal
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from functools import cached_property
from itertools import islice
from multiprocessing import get_context
from multiprocessing.context import BaseContext
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from regard.core.errors import BadInput, reason_of
from regard.core.files import read_bytes
from regard.core.workers import end_with_parent

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
                if _budget is not None:
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


_budget: "SharedBudget | None" = None  # of a worker; other processes decode one image at a time


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


Item = TypeVar("Item")
Result = TypeVar("Result")

SPAWN = get_context("spawn")
AT_ONCE = 8  # images that a worker decodes before it answers
AHEAD = 4  # such jobs of each worker that are begun before their results are needed
FEW = 32  # images that are not worth the start of a process
MOST = 8  # workers, where nobody says how many
PIXELS = 1 << 27  # that all workers decode at once; each takes up to 8 bytes, before it is resized


def default_workers() -> int:
    """Default number of workers: one per core, at most ``MOST``."""
    return min(os.cpu_count() or 1, MOST)


class DecodingPool:
    """Pool of worker processes; with 0 workers, this process decodes.

    The first ``few`` images are decoded here in any case, before processes are started.
    """

    def __init__(self, workers: int, few: int = FEW):
        self.workers, self._few = workers, few

    def map(
        self,
        work: Callable[[Item], Result],
        items: Iterable[Item],
        ready: Callable[[float], bool] = lambda seconds: True,
    ) -> Iterator[Result]:
        """Apply ``work`` to each item, in order; few results are in memory at once.

        While results are due, it does not wait for items: ``ready`` tells whether one has arrived.
        """
        coming = iter(items)
        for item in islice(coming, max(self._few, 0) if self.workers else None):
            self._few -= 1
            yield work(item)
        try:
            yield from self._map_ahead(work, _Coming(coming, ready))
        except BrokenProcessPool:
            raise BadInput("a process that decodes images died: use fewer workers") from None

    def _map_ahead(
        self, work: Callable[[Item], Result], coming: "_Coming[Item]"
    ) -> Iterator[Result]:
        jobs = deque[Future[list[Result]]]()
        try:
            while True:
                while len(jobs) < AHEAD * self.workers and (some := coming.take(block=not jobs)):
                    jobs.append(self._pool.submit(_work, work, some))
                if not jobs:
                    break
                yield from jobs.popleft().result()
        finally:
            for job in jobs:
                job.cancel()
        if coming.error is not None:
            raise coming.error

    @cached_property
    def _pool(self) -> ProcessPoolExecutor:
        """Executor of spawned processes: threads of this process would not survive a fork."""
        return ProcessPoolExecutor(self.workers, SPAWN, initializer=_begin, initargs=(self.budget,))

    @cached_property
    def budget(self) -> "SharedBudget":
        """The limit of the pixels that the workers decode at once."""
        return SharedBudget(SPAWN)

    def close(self) -> None:
        """End the processes, if any were started."""
        if "_pool" in vars(self):
            self._pool.shutdown(cancel_futures=True)
            del self._pool

    def __enter__(self) -> "DecodingPool":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Coming(Generic[Item]):
    """Iterator over arriving items; an error is raised after the results of earlier items."""

    def __init__(self, items: Iterator[Item], ready: Callable[[float], bool]):
        self.items, self.ready = items, ready
        self.error: BadInput | None = None

    def take(self, *, block: bool) -> list[Item]:
        """The next items that have arrived; with ``block``, one at least, unless all are taken."""
        some: list[Item] = []
        try:
            while len(some) < AT_ONCE and ((block and not some) or self.ready(0)):
                if not (next_item := [*islice(self.items, 1)]):
                    break
                some += next_item
        except BadInput as error:
            self.error, self.items = error, iter(())
        return some


def _work(work: Callable[[Item], Result], items: list[Item]) -> list[Result]:
    return [*map(work, items)]


class SharedBudget:
    """Limit of the pixels that all workers decode at once; a larger image is decoded alone."""

    def __init__(self, context: BaseContext, most: int = PIXELS):
        self.most, self.held = most, context.Value("q", 0, lock=False)
        self.changed = context.Condition()

    @contextmanager
    def reserved(self, pixels: int) -> Iterator[None]:
        """Wait until this number of pixels fits, and reserve them during the block."""
        with self.changed:
            fits = self.most - pixels
            self.changed.wait_for(lambda: not self.held.value or self.held.value <= fits)
            self.held.value += pixels
        try:
            yield
        finally:
            with self.changed:
                self.held.value -= pixels
                self.changed.notify_all()


def _begin(budget: SharedBudget) -> None:
    """Initialise a worker: share the budget of pixels, and end when the parent process ends.

    Ctrl-C is left to the parent.
    """
    global _budget
    _budget = budget
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent()
