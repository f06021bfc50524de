"""``regard score``: how probable given translations are."""

from typing import Annotated

import typer

from regard.api import load
from regard.cli.console import DEVICE, JSON, MODEL, print_json, print_line
from regard.cli.line_io import LONGEST, MAX_LENGTH, check_length, replied, windows
from regard.data.sources import Table, texts_in

COLUMNS = Table("-", (0, 1))


def score(
    model: MODEL,
    file: Annotated[
        str, typer.Argument(help="Lines of source, tab, target; - is standard input.")
    ] = "-",
    max_length: MAX_LENGTH = LONGEST,
    as_json: JSON = False,
    device: DEVICE = None,
) -> None:
    """Print the log-probability of each given translation; with --json also of each token.

    Example: paste test.en test.de | regard score runs/tour/model
    """
    translator = load(model, device).translator
    known = translator.text

    def parse(line: str, where: str) -> tuple[str, ...]:
        pair = texts_in(COLUMNS, line, where)
        for text, vocabulary in zip(pair, (known.source, known.target), strict=True):
            check_length(text, vocabulary, max_length, where)
        return pair

    for window in windows(file, parse):
        scored = replied(file, window, translator.score)
        for (_, (source, target)), (_, logprobs) in zip(window, scored, strict=True):
            if as_json:
                tokens = [*known.target.pieces(known.target.encode(target))]
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
