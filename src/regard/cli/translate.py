"""``regard translate``: lines in, translations out."""

from collections.abc import Iterator
from typing import Annotated, Literal

import typer

from regard.api import load
from regard.cli.say import DEVICE, JSON, MODEL, note, print_json, print_line
from regard.data.sources import read_lines
from regard.ground.errors import BadInput
from regard.search.beam import Beam
from regard.search.greedy import Greedy
from regard.search.sample import Sample
from regard.search.step import Search
from regard.text.subwords import Subwords


def translate(
    model: MODEL,
    file: Annotated[
        str, typer.Argument(help="Text, one sentence a line; - is standard input.")
    ] = "-",
    search: Annotated[
        Literal["beam", "greedy", "sample"], typer.Option(help="How to search.")
    ] = "beam",
    size: Annotated[int, typer.Option("--beam", help="Hypotheses kept at each step.")] = 5,
    best: Annotated[int, typer.Option(help="Translations printed for each line.")] = 1,
    length: Annotated[
        Literal["none", "mean", "gnmt", "power"], typer.Option(help="How length is weighed.")
    ] = "gnmt",
    alpha: Annotated[float, typer.Option(help="Its exponent, for gnmt and power.")] = 0.6,
    coverage: Annotated[float, typer.Option(help="Weight of the coverage penalty.")] = 0.0,
    finished: Annotated[
        int | None, typer.Option(help="Stop at this many finished hypotheses.")
    ] = None,
    no_repeat: Annotated[int, typer.Option(help="No n-gram of this size twice.")] = 0,
    temperature: Annotated[float, typer.Option(help="For sampling.")] = 1.0,
    top_k: Annotated[int, typer.Option(help="Sample among this many tokens; 0 is all.")] = 0,
    top_p: Annotated[float, typer.Option(help="Sample in the nucleus of this mass.")] = 1.0,
    seed: Annotated[int, typer.Option(help="For sampling.")] = 0,
    prefix: Annotated[
        str | None, typer.Option(help="A file of forced beginnings, one a line.")
    ] = None,
    rows: Annotated[
        int, typer.Option(help="Sentences at once; the result does not depend on it.")
    ] = 64,
    as_json: JSON = False,
    device: DEVICE = None,
) -> None:
    """Translate text, one sentence a line. An empty line stays empty.

    With --best n, each line gives n lines, best first. The formula behind the scores is printed
    to standard error.

    Example: echo "The old man reads a book." | regard translate runs/tour/model --beam 4
    """
    translator = load(model, device).translator.with_rows(rows)
    chosen: Search
    if search == "beam":
        chosen = beam = Beam(
            size,
            best,
            length,
            alpha,
            coverage,
            finished,
            no_repeat,
        )
        note(f"{beam}: score = {beam.formula}")
    elif search == "sample":
        chosen = Sample(temperature, top_k, top_p, best, seed)
    else:
        chosen = Greedy()
    prefixes = None if prefix is None else _as_many(prefix)
    lines = _with_unknowns(read_lines(file), translator.text.source)
    for number, found in enumerate(translator.stream(lines, chosen, prefixes)):
        for one in found:
            if as_json:
                print_json(
                    {
                        "line": number + 1,
                        "text": one.text,
                        "score": one.score,
                        "logprob": one.hypothesis.logprob,
                        "tokens": translator.text.target.pieces(one.hypothesis.tokens),
                        "logprobs": one.hypothesis.logprobs,
                        "finished": one.hypothesis.finished,
                    }
                )
            else:
                print_line(" ".join(one.text.split("\n")))


def _as_many(path: str) -> Iterator[str]:
    """The lines of a file, and an error instead of too few of them."""
    yield from read_lines(path)
    raise BadInput(f"{path}: has fewer lines than the text to translate")


def _with_unknowns(lines: Iterator[str], text: Subwords) -> Iterator[str]:
    """The same lines; words that WordPiece cannot write in its pieces are named on the way."""
    for number, line in enumerate(lines, 1):
        if text.kind == "wordpiece" and (unknown := text.unknown(line)):
            words = ", ".join(line[start:end] for start, end in unknown)
            note(f"line {number}: not in the vocabulary: {words}")
        yield line
