"""``regard tree``: the candidates of a beam search."""

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Context, Option

from regard.cli import formats
from regard.cli.declare import flags
from regard.cli.io.console import OUT, print_json, show_event, write_drawing, write_view
from regard.cli.io.files import check_argument
from regard.core.flags import refuse
from regard.experiments import options
from regard.experiments.options.writing import CoveredBeam

if TYPE_CHECKING:
    from regard.inside.trees.beam_tree import BeamTree


def tree(
    context: Context,
    model: options.MODEL,
    text: Annotated[str, Argument(metavar="TEXT", help="Sentence to translate.")],
    settings: CoveredBeam,
    pruned: Annotated[
        int, Option(min=0, help="Number of pruned candidates printed for each step.")
    ] = 2,
    html: formats.HTML = None,
    svg: formats.SVG = None,
    precision: options.STORED_PRECISION = None,
    device: options.DEVICE = None,
    as_json: options.JSON = False,
) -> None:
    """Show a beam search as a tree, with the reason for every pruning.

    For every candidate of every step: the log-probability of its last token, the sum over all its
    tokens, by which it is ranked, and its score after length normalisation. Then all finished
    hypotheses, and the choice of each other length rule.

    The default search comes from the [decode] table of the model's recipe, or from
    generation_config.json; an option overrides one setting of it.

    Example: regard tree runs/tour/model "The old man reads a book." --beam 3 --html tree.html
    """
    from regard.api import load
    from regard.experiments.search_methods import base_beam
    from regard.inside.trees.recording_beam import record_tree
    from regard.inside.trees.tree_text import tree_lines

    check_argument(text)
    if as_json:
        reason = "cannot be used with --json, which prints all candidates"
        refuse(flags(context, "pruned"), reason)
    translator = load(model, device).translator
    if precision is not None:
        translator = translator.with_precision(precision, "torch")  # recorded step by step
    overrides = {name: getattr(settings, name) for name in settings.used}
    own = base_beam(translator, overridden=bool(overrides), on_event=show_event)
    beam = replace(own, **overrides)
    searched = record_tree(translator, text, beam)
    write_view(html, searched.view_record, model=model)  # before a closed pipe ends the verb
    write_drawing(svg, searched.svg)
    if as_json:
        print_json(_record(searched))
    else:
        for line in tree_lines(searched, OUT.width, pruned):
            OUT.print(line)


def _record(tree: "BeamTree") -> dict[str, object]:
    """JSON record of a tree; parents and hypotheses name nodes by index."""
    return {
        "title": tree.title,
        "formula": tree.beam.formula,
        "winner": tree.winner,
        "nodes": [
            {**asdict(node), "why": tree.why(number)} for number, node in enumerate(tree.nodes)
        ],
        "found": [
            {
                "text": end.text,
                "node": end.node,
                **{key: getattr(end.hypothesis, key) for key in ("score", "logprob", "finished")},
            }
            for end in tree.hypotheses
        ],
        "choices": [
            {"formula": choice.formula, "found": choice.hypothesis, "score": choice.score}
            for choice in tree.choices
        ],
    }
