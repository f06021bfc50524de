"""``regard tree``: the candidates of a beam search."""

from typing import Annotated

from typer import Argument, Context, Option

from regard.cli import formats
from regard.cli.declare import flags
from regard.cli.io.console import print_result, show_event
from regard.cli.io.files import check_argument
from regard.core.flags import refuse
from regard.experiments import options
from regard.experiments.options.writing import CoveredBeam


def tree(
    context: Context,
    model: options.MODEL,
    text: Annotated[str, Argument(metavar="TEXT", help="Sentence to translate.")],
    settings: CoveredBeam,
    pruned: Annotated[
        int, Option(min=0, help="Number of pruned candidates printed for each step.")
    ] = 2,
    *,
    views: formats.ViewOptions,
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
    from regard.experiments.input_views import search_tree

    check_argument(text)
    if as_json:
        reason = "cannot be used with --json, which prints all candidates"
        refuse(flags(context, "pruned"), reason)
    runs = options.LoadOptions(precision=precision, device=device)
    searched = search_tree(model, text, settings, pruned, runs, on_event=show_event)
    views.write(searched.tree, model=model)  # before a closed pipe ends the verb
    print_result(searched, "json" if as_json else "text")
