"""``regard score``: log-probabilities of texts, or of given translations."""

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from regard.cli.io.console import note, print_json, print_line
from regard.cli.io.line_io import Line, LineSource, check_length, predict_window, read_windows
from regard.cli.io.output import output_to
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
from regard.data.files.fields import filled
from regard.data.files.text_files import whole_text
from regard.ground.errors import BadInput


def score(
    model: MODEL,
    file: FILE = "-",
    whole: Annotated[
        bool, typer.Option("--whole", help="The file is one text, not one in each line.")
    ] = False,
    window: Annotated[
        int | None,
        typer.Option(min=2, help="Tokens that are read at once.", show_default="the model's limit"),
    ] = None,
    stride: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Tokens from one window of a long text to the next.",
            show_default="half a window",
        ),
    ] = None,
    max_length: MAX_LENGTH = None,
    batch_size: BATCH_SIZE = None,
    precision: STORED_PRECISION = None,
    device: DEVICE = None,
    out: OUT_FILE = None,
    as_json: JSON = False,
) -> None:
    """Print the log-probability of each text, or translation.

    A language model reads a text in each line, a translator a source text, a tab, and its
    translation. Each token of a text is predicted from those before it (GPT), or from all others
    if the model is a masked LM. A recurrent model reads a long text in parts and carries its state,
    so that no token is read twice. Perplexity and bits per byte of all texts are printed at the
    end; with --json, those of each text and the log-probability of each token.

    Example: paste test.en test.de | regard score runs/tour/model
    """
    from regard.api import load
    from regard.inference.score_text import TextScore

    runner = load(model, device, precision=precision, batch_size=batch_size).runner
    scorer: Any = runner.scorer(window, stride)
    if whole and not scorer.reads_whole:
        raise BadInput("--whole cannot be used with a translator, which reads pairs of lines")
    most = max_length if scorer.reads_whole else max_length or MAX_TOKENS

    def parse(line: str, where: str) -> tuple[str, ...]:
        texts = scorer.parse(filled(line, where, "no text" if whole else "empty line"), where)
        for text, vocabulary in zip(texts, scorer.vocabularies, strict=True):
            if filled(text, where) and most is not None:
                check_length((text,), vocabulary, most, where)
        return texts

    scores, source = [], LineSource(file, parse)
    with output_to(out):
        for inputs in _whole(source) if whole else read_windows(source):
            results = predict_window(source, inputs, scorer.score)
            for given, result in zip(inputs, results, strict=True):
                if as_json:
                    print_json(scorer.record(given.value, result.value))
                else:
                    print_line(f"{result.value.logprob:.4f}")
                scores.append(result.value)
    if scorer.reads_whole and scores:
        total = TextScore.total(scores)
        bits = f"{total.bits_per_byte:.4f} bits per byte"
        note(f"perplexity {total.perplexity:.4f}, {bits}: {len(total.logprobs):,} tokens")


def _whole(source: LineSource) -> Iterator[list[Line]]:
    """The file as one line."""
    text = whole_text(source.file)
    yield [Line(1, text, source.parse(text, source.name))]
