"""``regard score``: how probable given translations are."""

from collections.abc import Iterator
from itertools import islice
from typing import Annotated

import typer

from regard.api import load
from regard.cli.say import DEVICE, JSON, MODEL, print_json, print_line
from regard.data.sources import Table, read_pairs

WINDOW = 1_024


def score(
    model: MODEL,
    file: Annotated[
        str, typer.Argument(help="Lines of source, tab, target; - is standard input.")
    ] = "-",
    as_json: JSON = False,
    device: DEVICE = None,
) -> None:
    """Print the log-probability of each given translation; with --json also of each token.

    Example: paste test.en test.de | regard score runs/tour/model
    """
    translator = load(model, device).translator
    pairs = ((source, target) for _, source, target in read_pairs(Table(file, (0, 1)), None))
    for window in _windows(pairs):
        for (source, target), logprobs in zip(window, translator.score(window), strict=True):
            if as_json:
                tokens = [*translator.text.target.pieces(translator.text.target.encode(target))]
                print_json(
                    {
                        "source": source,
                        "target": target,
                        "logprob": sum(logprobs),
                        "tokens": [*tokens, "</s>"],
                        "logprobs": logprobs,
                    }
                )
            else:
                print_line(f"{sum(logprobs):.4f}")


def _windows(pairs: Iterator[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    while window := list(islice(pairs, WINDOW)):
        yield window
