"""Images as inputs of a verb: listed lazily, and decoded by processes ahead of the model."""

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, cast

from regard.cli.io.line_io import Line, LineSource, Parse, parser_of
from regard.cli.io.table_io import UNDECLARED, refuse_folder_or_image, table_source
from regard.cli.options import refuse
from regard.data.readers.images import image_files
from regard.data.readers.sources import NumberedLines
from regard.data.readers.table_format import TableFormat
from regard.data.readers.text_files import Arrivals
from regard.ground.errors import BadInput, one_line
from regard.images.decode import SUFFIXES
from regard.images.decoding_pool import DecodingPool, default_workers
from regard.inside.views.markup import escape_line

if TYPE_CHECKING:
    from regard.api import Model
    from regard.images.processor import ImageProcessor
    from regard.inference.encoder_model import ImageModel
    from regard.tasks.components import AnyComponent


@dataclass(frozen=True, kw_only=True)
class ImageSource(LineSource):
    """Images: the file itself, all images of a folder, or a file with a path on each line.

    ``workers`` is the number of processes that decode and resize them for the ``processor``.
    """

    processor: "ImageProcessor"
    workers: int

    @property
    def is_folder(self) -> bool:
        return Path(self.file).is_dir()

    @property
    def is_image(self) -> bool:
        return not self.is_folder and Path(self.file).suffix.lower() in SUFFIXES

    def lines(self, arrivals: Arrivals) -> Iterator[bytes]:
        path = Path(self.file)
        if self.is_folder:
            files = image_files(path)
            if (first := next(files, None)) is None:
                raise BadInput(f"{path}: no JPEG, PNG or WebP in this folder")
            return map(os.fsencode, chain([first], files))
        return iter([os.fsencode(path)]) if self.is_image else super().lines(arrivals)

    def decoded(self, raw: bytes, where: str) -> str:
        return os.fsdecode(raw)

    def readable(self, raw: bytes) -> str:
        return os.fsdecode(raw)

    def key(self, text: str) -> str:
        with suppress(OSError, ValueError):
            return f"{text}\t{Path(text).stat().st_size}"
        return text

    def read(self, lines: NumberedLines, arrivals: Arrivals) -> Iterator[Line]:
        decode = partial(_decoded, self.processor, None if self.is_image else self.name)
        with DecodingPool(self.workers) as pool:
            for line in pool.map(decode, super().read(lines, arrivals), arrivals.ready):
                pixels = line.value
                yield line._replace(value=pixels and self.processor.normalised(*pixels))

    def title(self, line: Line) -> str:
        return f"{escape_line(line.text)}\t" if self.is_folder else ""

    def record(self, line: Line) -> dict[str, object]:
        return {**super().record(line), "image": line.text or None}


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
    file: str,
    columns: Sequence[str] | None,
    max_length: int | None,
    form: TableFormat = UNDECLARED,
    *,
    workers: int | None = None,
    skip_bad: bool = False,
) -> LineSource:
    """The inputs of a component: rows of a table, lines of text, or images."""
    if not model.facts.encoder.embed.reads_images:
        table = table_source(component, file, columns, max_length, form, skip_bad=skip_bad)
        if table is not None and workers is None:
            return table
    else:
        flags = {"--column": columns, "--delimiter": form.delimiter, "--encoding": form.encoding}
        refuse(flags, "this model reads images; name a folder, or a file of paths")
    source = lines_or_images(
        model, file, parser_of(component, max_length), workers=workers, skip_bad=skip_bad
    )
    return replace(source, encoding=form.encoding or source.encoding)


def lines_or_images(
    model: "Model", file: str, parse: Parse, *, workers: int | None = None, skip_bad: bool = False
) -> LineSource:
    """The inputs of a model: lines of text, or images."""
    if model.facts.encoder.embed.reads_images:
        runner = cast("ImageModel", model.runner)
        count = default_workers() if workers is None else workers
        window, processor = runner.batch_size, runner.processor
        return ImageSource(file, parse, window, skip_bad, processor=processor, workers=count)
    if workers is not None:
        raise BadInput(
            "--workers: processes that decode images, but this model reads texts; leave it out"
        )
    refuse_folder_or_image(file)
    return LineSource(file, parse, skip_bad=skip_bad)
