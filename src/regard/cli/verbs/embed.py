"""``regard embed``: one vector for each text."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from typing import Annotated

import numpy as np
import typer

from regard.cli.io.console import json_line, note
from regard.cli.io.image_io import source_for
from regard.cli.io.line_io import Line, LineSource, parser_of, result_lines
from regard.cli.io.output import open_output, resumable_command
from regard.cli.options import (
    BATCH_SIZE,
    DEVICE,
    FILE,
    JSON,
    MAX_LENGTH,
    MODEL,
    OUT_FILE,
    POOL,
    PRECISION,
    RESUME,
    SKIP_BAD,
    WORKERS,
)
from regard.ground.errors import BadInput


def embed(
    context: typer.Context,
    model: MODEL,
    file: FILE = "-",
    pool: POOL = None,
    normalise: Annotated[
        bool | None,
        typer.Option(
            "--normalise/--no-normalise",
            help="Scale vectors to length 1.",
            show_default="the folder's, else no",
        ),
    ] = None,
    max_length: MAX_LENGTH = None,
    batch_size: BATCH_SIZE = None,
    precision: PRECISION = "auto",
    device: DEVICE = None,
    workers: WORKERS = None,
    skip_bad: SKIP_BAD = False,
    out: OUT_FILE = None,
    resume: RESUME = False,
    as_json: JSON = False,
) -> None:
    """Print one vector for each line.

    Numbers are separated by spaces. An empty line stays empty; in a .npy file it is a row of zeros.
    The name of the file (--out) decides its format: .npy, .txt (separated by spaces), .tsv (by
    tabs) or .jsonl (as --json). An encoder reads two texts separated by a tab as a pair.

    A model of images is given an image, a folder or a file of paths, as by regard predict; vectors
    of a folder are in the order of names, which JSON has under "image". --workers, --skip-bad and
    --resume are those of regard predict.

    Example: echo "a gripping film" | regard embed runs/bert/model --json
    """
    from regard.api import load
    from regard.text.tokenizers.ids_only import require_tokenizer

    if out is not None and as_json:
        raise BadInput("--json: vectors are printed, or written to a file (--out), not both")
    if out is not None and out.suffix not in FORMATS:
        raise BadInput(f"--out {out}: the name of a file of vectors ends in {', '.join(FORMATS)}")
    command = resumable_command(context, "workers", "skip_bad")
    loaded = load(model, device, precision=precision, batch_size=batch_size)
    component = loaded.runner.embedder(pool, normalise)
    require_tokenizer(loaded.tokenizer)
    parse, width = parser_of(component, max_length), component.width
    source = source_for(loaded, file, parse, workers=workers, skip_bad=skip_bad)
    form = FORMATS[out.suffix if out is not None else ".jsonl" if as_json else ".txt"](width)
    with open_output(out, command) as (stream, progress):
        if not progress.inputs:
            stream.write(form.head(0))
        for line in result_lines(source, component, progress):
            progress.check(line)
            stream.write(form.row(source, line))
        if end := form.head(progress.inputs):
            stream.seek(0)
            stream.write(end)
    progress.report()
    if out is not None:
        note(f"wrote {out}: {progress.inputs:,} vectors of {width}")


@dataclass(frozen=True)
class TextVectors:
    """A line for each vector; an empty one where there is none."""

    width: int
    between: str = " "

    def head(self, rows: int) -> bytes:
        """What stands before so many vectors."""
        return b""

    def row(self, source: LineSource, line: Line) -> bytes:
        """The vector of a line."""
        numbers = () if line.value is None else line.value.value
        return (self.between.join(f"{number:.8g}" for number in numbers) + "\n").encode()


class JsonVectors(TextVectors):
    """A record for each vector."""

    def row(self, source: LineSource, line: Line) -> bytes:
        vector = None if line.value is None else line.value.value.tolist()
        return json_line({**source.record(line), "vector": vector}).encode()


class NumpyVectors(TextVectors):
    """An array of numpy, whose head has room for more rows; zeros where there is no vector."""

    def head(self, rows: int) -> bytes:
        shape, head = {"shape": (rows, self.width), "fortran_order": False}, BytesIO()
        np.lib.format.write_array_header_1_0(head, {"descr": "<f4", **shape})
        return head.getvalue()

    def row(self, source: LineSource, line: Line) -> bytes:
        vector_D = np.zeros(self.width) if line.value is None else line.value.value
        return vector_D.astype("<f4").tobytes()


FORMATS: dict[str, Callable[[int], TextVectors]] = {
    ".npy": NumpyVectors,
    ".txt": TextVectors,
    ".tsv": partial(TextVectors, between="\t"),
    ".jsonl": JsonVectors,
}
