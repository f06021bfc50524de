"""``regard predict``: labels of texts, tags of words, answers and choices."""

from typing import Annotated

import typer

from regard.api import load
from regard.cli.console import DEVICE, JSON, MODEL, PRECISION, print_json, print_line
from regard.cli.line_io import answered


def predict(
    model: MODEL,
    file: Annotated[str, typer.Argument(help="One input a line; - is standard input.")] = "-",
    split: Annotated[
        bool, typer.Option("--split", help="Words to tag are what white space sets apart.")
    ] = False,
    entities: Annotated[
        bool, typer.Option("--entities", help="Print entities instead of tagged words.")
    ] = False,
    precision: PRECISION = "auto",
    as_json: JSON = False,
    device: DEVICE = None,
) -> None:
    """Print what a model says of each line. An empty line stays an empty line.

    Of a classifier, the label, a tab, and its probability (or the labels that hold, or the number).
    Two texts have a tab between them. Of a tagger, word/tag for each word. Answers are asked for as
    question, tab, context, or as JSON with these two keys; choices as JSON: {"first": "…",
    "choices": ["…", "…"]}, the best of which is printed by its number, counted from 0.

    With --json everything is printed: all probabilities, and where words, entities and answers
    begin and end, in characters.

    Example: echo "a gripping film" | regard predict runs/sst2-pooled/model
    """
    predictor = load(model, device, precision=precision).predictor
    predictor = predictor.with_options(split=split, entities=entities)
    for number, result in answered(file, predictor.parse, predictor.predict):
        if as_json:
            record = predictor.empty_record if result is None else predictor.record(result)
            print_json({"line": number, **record})
        else:
            print_line("" if result is None else predictor.line(result))
