"""``regard tree``: how a beam search went, candidate by candidate."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from regard.api import load
from regard.cli.console import DEVICE, JSON, MODEL, OUT, note, print_json
from regard.cli.search import OWN, default_search, options_given
from regard.ground.errors import BadInput
from regard.ground.files import write_text
from regard.inside.beam_drawing import drawing
from regard.inside.beam_page import page
from regard.inside.beam_terminal import lines
from regard.inside.beamtree import BeamTree
from regard.inside.witness import tree as search_tree

SEARCH = ("size", "length", "alpha", "coverage", "finished", "no_repeat", "stop")


def tree(
    context: typer.Context,
    model: MODEL,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="A sentence to translate.")],
    size: Annotated[
        int | None, typer.Option("--beam", help="Hypotheses kept at each step.", show_default=OWN)
    ] = None,
    length: Annotated[
        Literal["none", "mean", "gnmt", "power"] | None,
        typer.Option(help="How length is weighed.", show_default=OWN),
    ] = None,
    alpha: Annotated[
        float | None, typer.Option(help="Its exponent, for gnmt and power.", show_default=OWN)
    ] = None,
    coverage: Annotated[float | None, typer.Option(help="Weight of the coverage penalty.")] = None,
    finished: Annotated[
        int | None, typer.Option(help="Stop at this many finished hypotheses.")
    ] = None,
    no_repeat: Annotated[
        int | None, typer.Option(help="No n-gram of this size twice.", show_default=OWN)
    ] = None,
    stop: Annotated[
        Literal["default", "transformers", "transformers-early", "transformers-never"] | None,
        typer.Option(
            help="When a sentence is over: by our rule, or those of transformers.",
            show_default=OWN,
        ),
    ] = None,
    pruned: Annotated[
        int, typer.Option(min=0, help="Pruned candidates shown of each step in the terminal.")
    ] = 2,
    html: Annotated[
        Path | None, typer.Option(help="Write one page with everything; it works offline.")
    ] = None,
    svg: Annotated[Path | None, typer.Option(help="Write the tree as a vector drawing.")] = None,
    as_json: JSON = False,
    device: DEVICE = None,
) -> None:
    """Show the beam as a tree: what went on, what was set aside, what was pruned and why.

    For every candidate of every step: its token's log p, the log p of all its tokens, by which it
    is ranked, and its score after the length rule. Then all hypotheses that were set aside, and
    what other length rules would have chosen from them.

    A model is searched as the [decode] table of its recipe says, a published folder as its
    generation settings say; an option overrules only what it names.

    Example: regard tree runs/tour/model "The old man reads a book." --beam 3 --html tree.html
    """
    if not text.strip():
        raise BadInput("there is no text to translate")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise BadInput("the text is not UTF-8")
    translator = load(model, device).translator
    given = options_given(context, SEARCH)
    beam = replace(default_search(translator, named=bool(given)), **given)
    seen = search_tree(translator, text, beam)
    for path, make in ((html, page), (svg, drawing)):  # first: whoever reads on may go away
        if path is not None:
            write_text(path, make(seen))
            note(f"wrote {path}")
    if as_json:
        print_json(_record(seen))
    else:
        for line in lines(seen, OUT.width, pruned):
            OUT.print(line)


def _record(seen: BeamTree) -> dict[str, Any]:
    """All there is; parents and ends are indices into the nodes."""
    return {
        "title": seen.title,
        "formula": seen.beam.formula,
        "winner": seen.winner,
        "nodes": [
            {**asdict(node), "why": seen.why(number)} for number, node in enumerate(seen.nodes)
        ],
        "found": [
            {
                "text": one.text,
                "node": one.node,
                "score": one.hypothesis.score,
                "logprob": one.hypothesis.logprob,
                "finished": one.hypothesis.finished,
            }
            for one in seen.found
        ],
        "choices": [asdict(choice) for choice in seen.choices],
    }
