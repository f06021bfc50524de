"""``regard predict``: the labels of texts."""

from itertools import tee
from typing import Annotated

import typer

from regard.api import load
from regard.cli.say import DEVICE, JSON, MODEL, print_json, print_line
from regard.data.sources import read_lines


def predict(
    model: MODEL,
    file: Annotated[str, typer.Argument(help="One text a line; - is standard input.")] = "-",
    as_json: JSON = False,
    device: DEVICE = None,
) -> None:
    """Print the label of each line, a tab, and its probability; with --json all probabilities.

    An empty line stays an empty line.

    Example: echo "a gripping film" | regard predict runs/sst2-pooled/model
    """
    asked, kept = tee(read_lines(file))
    predictions = load(model, device).classifier.stream(asked)
    for number, (text, found) in enumerate(zip(kept, predictions, strict=True), start=1):
        empty = not text.strip()
        if as_json:
            record = {
                "line": number,
                "label": None if empty else found.label,
                "probability": None if empty else found.probability,
                "probabilities": None if empty else found.probabilities,
            }
            print_json(record)
        else:
            print_line("" if empty else f"{found.label}\t{found.probability:.4f}")
