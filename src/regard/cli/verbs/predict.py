"""``regard predict``: labels of texts and images, tags of words, answers and choices."""

from typing import Annotated

import typer

from regard.cli.io.image_io import source_for
from regard.cli.io.line_io import parser_of, run_component
from regard.cli.io.output import resumable_command
from regard.cli.options import (
    BATCH_SIZE,
    DEVICE,
    FILE,
    JSON,
    MAX_LENGTH,
    MODEL,
    OUT_FILE,
    PRECISION,
    PRETOKENISED,
    RESUME,
    SKIP_BAD,
    WORKERS,
)


def predict(
    context: typer.Context,
    model: MODEL,
    file: FILE = "-",
    pretokenised: PRETOKENISED = False,
    entities: Annotated[
        bool, typer.Option("--entities", help="Print entities instead of tagged words.")
    ] = False,
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
    """Print labels, tags, answers or choices for each line.

    A classifier prints the label, a tab and its probability (several labels, or a number, by its
    task); two texts are separated by a tab. A tagger prints word/tag for each word. A question is
    asked as question, tab, context, or as JSON with these two keys. Choices are JSON: {"first":
    "…", "choices": ["…", "…"]}; the index of the best is printed, counted from 0. An empty line
    stays empty.

    Of texts longer than the model reads, the beginning is read; how many were cut is printed to
    standard error. Taggers, and contexts of questions, are read in several parts instead. A line
    longer than --max-length is an error.

    A model of images is given an image (JPEG, PNG, WebP), a folder of them, or a file with a path
    on each line. Images of a folder are read in the order of their names, which stand before the
    results; JSON has them under "image".

    Millions of them can be read: processes (--workers) decode them ahead of the model, and no more
    than a few batches are in memory. With --out FILE --resume, results are kept in FILE.partial as
    they come; the same command goes on after them if it was stopped, and the file is the same as
    that of a run that was not. A bad image, or line, is an error; with --skip-bad it is named on
    standard error, has no result ("error" in JSON), and the run goes on.

    With --json everything is printed: all probabilities, the character offsets of words, entities
    and answers, and whether the input was cut.

    Example: echo "a gripping film" | regard predict runs/sst2-pooled/model
    """
    from regard.api import load

    command = resumable_command(context, "workers", "skip_bad")
    loaded = load(model, device, precision=precision, batch_size=batch_size)
    component = loaded.predictor.with_options(pretokenised=pretokenised, entities=entities)
    parse = parser_of(component, max_length)
    source = source_for(loaded, file, parse, workers=workers, skip_bad=skip_bad)
    run_component(source, component, out, command, as_json=as_json)
