"""``regard predict``: labels of texts and images, tags of words, answers and choices."""

from collections import deque
from pathlib import Path
from typing import Annotated, Any

import typer

from regard.cli.console import output_to, print_json, print_line
from regard.cli.line_io import CutInputs, Parse, lines_for, predict_lines, with_max_length
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
)


def predict(
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
    out: OUT_FILE = None,
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

    With --json everything is printed: all probabilities, the character offsets of words, entities
    and answers, and whether the input was cut.

    Example: echo "a gripping film" | regard predict runs/sst2-pooled/model
    """
    from regard.api import load

    loaded = load(model, device, precision=precision, batch_size=batch_size)
    predictor = loaded.predictor.with_options(pretokenised=pretokenised, entities=entities)
    count, inputs = predictor.token_count, CutInputs(predictor)
    parse = with_max_length(predictor.parse, count, max_length, predictor.max_length)
    paths, images = ImagePaths(parse, file), loaded.facts.encoder.embed.reads_images
    parse = paths.parse if images else parse
    with output_to(out):
        for number, found in predict_lines(file, parse, inputs.predict, lines_for(loaded)):
            result, cut = found or (None, None)
            path = paths.next() if found else None
            if as_json:
                record = predictor.empty_record if result is None else predictor.record(result)
                image = {"image": path} if images else {}
                print_json({"line": number, **image, **record, "cut": cut})
            else:
                line = "" if result is None else predictor.line(result)
                print_line(f"{path}\t{line}" if path and paths.named else line)
    inputs.report()


class ImagePaths:
    """The paths of images that were read and whose results have not been printed.

    Lines of results have them (``named``) where a whole folder is read.
    """

    def __init__(self, parse: Parse, file: str):
        self._parse, self._waiting = parse, deque[str]()
        self.named = Path(file).is_dir()

    def parse(self, line: str, where: str) -> Any:
        """The image in a line."""
        image = self._parse(line, where)
        self._waiting.append(line)
        return image

    def next(self) -> str | None:
        """The path of the next result; None where no images are read."""
        return self._waiting.popleft() if self._waiting else None
