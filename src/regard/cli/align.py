"""``regard align``: attention read as word alignment."""

import json
from dataclasses import replace
from typing import Annotated, Any

import typer

from regard.api import load
from regard.cli.say import DEVICE, JSON, MODEL, note, print_json, print_line
from regard.data.sources import Lines, read_lines, read_pairs
from regard.ground.errors import BadInput
from regard.metrics.alignment import Gold, alignment_error_rate, format_pharaoh, parse_gold
from regard.models.facts import PairFacts
from regard.text.words import words


def align(
    model: MODEL,
    source: Annotated[str, typer.Argument(metavar="SRC", help="Sentences, one a line.")],
    target: Annotated[str, typer.Argument(metavar="TGT", help="Their translations.")],
    gold: Annotated[
        str | None, typer.Option(help="Gold links: i-j sure, ipj possible; prints the error rate.")
    ] = None,
    base: Annotated[int, typer.Option(help="What gold links count from: 0 or 1.")] = 0,
    layer: Annotated[int | None, typer.Option(help="Decoder layer, from 0.")] = None,
    head: Annotated[int | None, typer.Option(help="One head instead of their mean.")] = None,
    shifted: Annotated[
        bool | None,
        typer.Option("--shifted/--plain", help="Read the step that has the word as its input."),
    ] = None,
    as_json: JSON = False,
    device: DEVICE = None,
) -> None:
    """Print links between words, source-target, counted from 0, one line for each pair.

    Words and punctuation marks count as words. Layer and reading are those kept with the model (the
    tour chooses them on its development set), else the last layer, unless given. The error rate
    goes to standard error.

    Example: regard align runs/tour/model test.en test.de --gold test.links
    """
    loaded = load(model, device)
    reading = loaded.reading
    given: dict[str, Any] = {"layer": layer, "head": head, "shifted": shifted}
    reading = replace(reading, **{k: v for k, v in given.items() if v is not None})
    assert isinstance(loaded.facts, PairFacts)
    stack = loaded.facts.target.stack
    if not (0 <= reading.layer < stack.depth and 0 <= (reading.head or 0) < stack.heads):
        raise BadInput(f"the decoder has layers 0-{stack.depth - 1} and heads 0-{stack.heads - 1}")
    note(f"{reading}")
    pairs = [(one, other) for _, one, other in read_pairs(Lines((source, target)), None)]
    golds = None if gold is None else _golds(gold, base, pairs)
    found = list(loaded.align(pairs, reading))
    for (one, other), links in zip(pairs, found, strict=True):
        if as_json:
            print_json({"source": words(one), "target": words(other), "links": sorted(links)})
        else:
            print_line(format_pharaoh(links))
    if golds is not None:
        score = alignment_error_rate(found, golds)
        figures = {"aer": score.aer, "precision": score.precision, "recall": score.recall}
        shown = "  ".join(f"{name} {value:.4f}" for name, value in figures.items())
        note(json.dumps(figures) if as_json else shown)


def _golds(path: str, base: int, pairs: list[tuple[str, str]]) -> list[Gold]:
    lines = list(read_lines(path))
    if len(lines) != len(pairs):
        raise BadInput(f"{path} has {len(lines)} lines for {len(pairs)} pairs")
    return [
        parse_gold(line, base, f"{path}:{number}", (len(words(one)), len(words(other))))
        for number, (line, (one, other)) in enumerate(zip(lines, pairs, strict=True), 1)
    ]
