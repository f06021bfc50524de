"""``regard tree``: how a beam search went, candidate by candidate."""

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.io.console import OUT, print_json, write_page
from regard.cli.io.line_io import check_argument
from regard.cli.options import (
    ALPHA,
    BEAM,
    COVERAGE,
    DEVICE,
    FINISHED,
    HTML,
    JSON,
    LENGTH,
    MODEL,
    NO_REPEAT,
    STOP,
    STORED_PRECISION,
    SVG,
    options_given,
    was_given,
)
from regard.ground.errors import BadInput

if TYPE_CHECKING:
    from regard.inside.trees.beam_tree import BeamTree

SEARCH = ("size", "length", "alpha", "coverage", "finished", "no_repeat", "stop")


def tree(
    context: typer.Context,
    model: MODEL,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="A sentence to translate.")],
    size: BEAM = None,
    length: LENGTH = None,
    alpha: ALPHA = None,
    coverage: COVERAGE = None,
    finished: FINISHED = None,
    no_repeat: NO_REPEAT = None,
    stop: STOP = None,
    pruned: Annotated[
        int, typer.Option(min=0, help="Pruned candidates printed for each step.")
    ] = 2,
    html: HTML = None,
    svg: SVG = None,
    precision: STORED_PRECISION = None,
    device: DEVICE = None,
    as_json: JSON = False,
) -> None:
    """Show a beam search as a tree, with the reason for every pruning.

    For every candidate of every step: the log-probability of its token, that of all its tokens, by
    which it is ranked, and its score after length normalisation. Then all finished hypotheses, and
    which of them other length rules would have chosen.

    The default search is that of the [decode] table of the model's recipe, or that of
    generation_config.json; an option overrides one setting of it.

    Example: regard tree runs/tour/model "The old man reads a book." --beam 3 --html tree.html
    """
    from regard.api import load
    from regard.cli.decode import base_beam
    from regard.inside.trees.recording_beam import record_tree
    from regard.inside.views.beam_html import tree_page
    from regard.inside.views.beam_svg import BeamDrawing
    from regard.inside.views.beam_text import tree_lines

    check_argument(text)
    if as_json and was_given(context, "pruned"):
        raise BadInput("--pruned: cannot be used with --json, which prints all candidates")
    translator = load(model, device).translator
    if precision is not None:
        translator = translator.with_precision(precision, "torch")  # recorded step by step
    given = options_given(context, SEARCH)
    beam = replace(base_beam(translator, overridden=bool(given)), **given)
    searched = record_tree(translator, text, beam)
    write_page(html, lambda: tree_page(searched))  # before a closed pipe ends the verb
    write_page(svg, BeamDrawing(searched).svg)
    if as_json:
        print_json(_record(searched))
    else:
        for line in tree_lines(searched, OUT.width, pruned):
            OUT.print(line)


def _record(tree: "BeamTree") -> dict[str, object]:
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
