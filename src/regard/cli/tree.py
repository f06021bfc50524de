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
from regard.inside.beam_tree import BeamTree
from regard.inside.recording_beam import record_tree
from regard.inside.views.beam_html import tree_page
from regard.inside.views.beam_svg import draw_tree
from regard.inside.views.beam_text import tree_lines

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
    """Show the beam as a tree: which candidates were kept, which ended, which were pruned and why.

    For every candidate of every step: its token's log p, the log p of all its tokens, by which it
    is ranked, and its score after the length penalty. Then all hypotheses that ended, and which is
    the best under other length penalties.

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
    searched = record_tree(translator, text, beam)
    for path, render in ((html, tree_page), (svg, draw_tree)):  # first: a pipe may close
        if path is not None:
            write_text(path, render(searched))
            note(f"wrote {path}")
    if as_json:
        print_json(_record(searched))
    else:
        for line in tree_lines(searched, OUT.width, pruned):
            OUT.print(line)


def _record(tree: BeamTree) -> dict[str, Any]:
    """The tree for JSON; parents and ends are indices into the nodes."""
    return {
        "title": tree.title,
        "formula": tree.beam.formula,
        "winner": tree.winner,
        "nodes": [
            {**asdict(node), "why": tree.why(number)} for number, node in enumerate(tree.nodes)
        ],
        "found": [
            {
                "text": one.text,
                "node": one.node,
                "score": one.hypothesis.score,
                "logprob": one.hypothesis.logprob,
                "finished": one.hypothesis.finished,
            }
            for one in tree.hypotheses
        ],
        "choices": [
            {"formula": one.formula, "found": one.hypothesis, "score": one.score}
            for one in tree.choices
        ],
    }
