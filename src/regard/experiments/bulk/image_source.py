"""Images as inputs: listed lazily, and decoded by processes ahead of the model."""

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, cast

from regard.core.errors import BadArgument, BadInput, one_line
from regard.data.readers.image_files import image_files
from regard.data.readers.sources import NumberedLines
from regard.data.readers.text_files import Arrivals, coded_lines
from regard.data.table_columns import InputColumns
from regard.experiments.bulk.file_list import list_files, match_patterns, text_source
from regard.experiments.bulk.line_source import InputSettings, Line, LineSource, Parse, parser_of
from regard.experiments.bulk.table_source import refuse_folder_or_image
from regard.images.decode import SUFFIXES, DecodingPool, default_workers
from regard.views.markup import escape_line

if TYPE_CHECKING:
    from regard.api import Model
    from regard.images.processor import ImageProcessor
    from regard.inference.encoder_model import ImageModel
    from regard.tasks.components import AnyComponent


@dataclass(frozen=True, kw_only=True)
class ImageSource(LineSource):
    """Images: the file itself, all images of a folder, or a file with a path on each line.

    ``more`` are read after the first. ``workers`` is the number of processes that decode and
    resize them for the ``processor``; None: as many as the machine has cores for.
    """

    processor: "ImageProcessor"
    workers: int | None
    more: tuple[str, ...] = ()

    @property
    def has_titles(self) -> bool:
        """Whether the path of each image is printed before its result."""
        return bool(self.more) or Path(self.file).is_dir()

    @property
    def has_workers(self) -> bool:
        return bool(self.workers)

    def lines(self, arrivals: Arrivals) -> Iterator[bytes]:
        return chain.from_iterable(self._paths(file, arrivals) for file in (self.file, *self.more))

    def _paths(self, file: str, arrivals: Arrivals) -> Iterator[bytes]:
        path = Path(file)
        if path.is_dir():
            files = image_files(path)
            if (first := next(files, None)) is None:
                raise BadInput(f"{path}: no JPEG, PNG or WebP in this folder")
            return map(os.fsencode, chain([first], files))
        if _is_image(file):
            return iter([os.fsencode(path)])
        return coded_lines(file, self.encoding, arrivals)

    def decoded(self, raw: bytes, where: str) -> str:
        return os.fsdecode(raw)

    def readable(self, raw: bytes) -> str:
        return os.fsdecode(raw)

    def key(self, text: str) -> str:
        with suppress(OSError, ValueError):
            return f"{text}\t{Path(text).stat().st_size}"
        return text

    def read(self, lines: NumberedLines, arrivals: Arrivals) -> Iterator[Line]:
        name = None if self.more or _is_image(self.file) else self.name
        decode = partial(_decoded, self.processor, name)
        count = default_workers() if self.workers is None else self.workers
        with DecodingPool(count) as pool:
            for line in pool.map(decode, super().read(lines, arrivals), arrivals.ready):
                pixels = line.value
                yield line._replace(value=pixels and self.processor.normalised(*pixels))

    def title(self, line: Line) -> str:
        return f"{escape_line(line.text)}\t" if self.has_titles else ""

    def record(self, line: Line) -> dict[str, object]:
        return {**super().record(line), "image": line.text or None}


def _is_image(file: str) -> bool:
    path = Path(file)
    return not path.is_dir() and path.suffix.lower() in SUFFIXES


def _decoded(processor: "ImageProcessor", name: str | None, line: Line) -> Line:
    """The line with the bytes of its image in a tuple, or with the error of a bad image.

    The error begins with the line in the file or folder called ``name``, if there is one.
    """
    if line.value is None:
        return line
    try:
        return line._replace(value=(processor.resized(line.value),))
    except BadInput as error:
        place = "" if name is None else f"{name}:{line.number}: "
        remedy = "" if name is None else "; this model reads images: each line is the path of one"
        return line._replace(value=None, error=one_line(f"{place}{error}{remedy}"))


def source_for(
    model: "Model",
    component: "AnyComponent",
    names: Sequence[str],
    settings: InputSettings,
    *,
    workers: int | None = None,
) -> LineSource:
    """The inputs of a component in files of these names: rows of tables, lines, or images."""
    if not model.facts.encoder.embed.reads_images:
        trained = InputColumns.of_notes(model.notes)
        return text_source(component, list_files(*names), replace(settings, trained=trained))
    form = settings.form
    of_texts = {"columns": settings.columns, "delimiter": form.delimiter, "encoding": form.encoding}
    if used := [name for name, value in of_texts.items() if value]:
        fault = "this model reads images; name a folder, or a file of paths"
        raise BadArgument(fault, key=used)
    parse, (file, *more) = parser_of(component, settings.max_length), match_patterns(*names)
    return lines_or_images(model, file, parse, *more, workers=workers, skip_bad=settings.skip_bad)


def lines_or_images(
    model: "Model",
    file: str,
    parse: Parse,
    *more: str,
    workers: int | None = None,
    skip_bad: bool = False,
) -> LineSource:
    """The inputs of a model: lines of text, or images."""
    if model.facts.encoder.embed.reads_images:
        runner = cast("ImageModel", model.runner)
        window, processor = runner.batch_size, runner.processor
        return ImageSource(
            file, parse, window, skip_bad, processor=processor, workers=workers, more=more
        )
    if workers is not None:
        fault = "processes that decode images, but this model reads texts; leave it out"
        raise BadArgument(fault, key="workers")
    refuse_folder_or_image(file)
    return LineSource(file, parse, skip_bad=skip_bad)
