"""``regard predict``: labels of texts, tags of words, answers and choices."""

from typing import Annotated

import typer

from regard.cli.console import print_json, print_line
from regard.cli.line_io import predict_lines, with_max_length
from regard.cli.options import (
    BATCH_SIZE,
    DEVICE,
    FILE,
    JSON,
    MAX_LENGTH,
    MODEL,
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
    as_json: JSON = False,
) -> None:
    """Print labels, tags, answers or choices for each line.

    A classifier prints the label, a tab and its probability (several labels, or a number, by its
    task); two texts are separated by a tab. A tagger prints word/tag for each word. A question is
    asked as question, tab, context, or as JSON with these two keys. Choices are JSON: {"first":
    "…", "choices": ["…", "…"]}; the index of the best is printed, counted from 0. An empty line
    stays empty.

    With --json everything is printed: all probabilities, and the character offsets of words,
    entities and answers.

    Example: echo "a gripping film" | regard predict runs/sst2-pooled/model
    """
    from regard.api import load

    loaded = load(model, device, precision=precision, batch_size=batch_size)
    predictor = loaded.predictor.with_options(pretokenised=pretokenised, entities=entities)
    vocabulary = loaded.encoder.text.vocabularies[0]
    limits = (max_length, predictor.max_length)
    parse = with_max_length(predictor.parse, vocabulary, *limits)
    for number, result in predict_lines(file, parse, predictor.predict):
        if as_json:
            record = predictor.empty_record if result is None else predictor.record(result)
            print_json({"line": number, **record})
        else:
            print_line("" if result is None else predictor.line(result))
