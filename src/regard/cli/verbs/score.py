"""``regard score``: log-probabilities of given translations."""

from regard.cli.console import output_to, print_json, print_line
from regard.cli.line_io import check_length, predict_window, read_windows
from regard.cli.options import (
    BATCH_SIZE,
    DEVICE,
    FILE,
    JSON,
    MAX_LENGTH,
    MAX_TOKENS,
    MODEL,
    OUT_FILE,
    STORED_PRECISION,
)
from regard.data.fields import filled
from regard.data.sources import Table

COLUMNS = Table("-", (0, 1))


def score(
    model: MODEL,
    file: FILE = "-",
    max_length: MAX_LENGTH = None,
    batch_size: BATCH_SIZE = None,
    precision: STORED_PRECISION = None,
    device: DEVICE = None,
    out: OUT_FILE = None,
    as_json: JSON = False,
) -> None:
    """Print the log-probability of each given translation.

    A line is a source text, a tab, and its translation. With --json, the log-probability of each
    token is printed too.

    Example: paste test.en test.de | regard score runs/tour/model
    """
    from regard.api import load

    translator = load(model, device, precision=precision, batch_size=batch_size).translator
    sides = translator.tokenizer.sides

    def parse(line: str, where: str) -> tuple[str, ...]:
        pair = COLUMNS.parse(filled(line, where, "empty line"), where)
        for text, vocabulary in zip(pair, sides, strict=True):
            check_length((filled(text, where),), vocabulary, max_length or MAX_TOKENS, where)
        return pair

    with output_to(out):
        for window in read_windows(file, parse):
            scores = predict_window(file, window, translator.score)
            for (_, (source, target)), (_, logprobs) in zip(window, scores, strict=True):
                if as_json:
                    tokens = [*sides[1].pieces(sides[1].encode(target)), "</s>"]
                    record = {"source": source, "target": target, "logprob": sum(logprobs)}
                    print_json(record | {"tokens": tokens, "logprobs": logprobs})
                else:
                    print_line(f"{sum(logprobs):.4f}")
