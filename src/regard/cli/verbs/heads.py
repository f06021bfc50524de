"""``regard heads``: what each attention head does, by its weights, a treebank and gradients."""

from pathlib import Path
from typing import Annotated

from typer import Option

from regard.cli import formats
from regard.cli.io.console import print_result
from regard.core.errors import BadInput
from regard.core.flags import refuse
from regard.experiments import options


def heads(
    model: options.MODEL,
    text: Annotated[
        str | None,
        Option(
            metavar="FILE",
            help="Texts, one per line (a tab between two); or an image, a folder, a file of paths.",
        ),
    ] = None,
    treebank: Annotated[
        Path | None,
        Option(metavar="FILE", help="CoNLL-U file, or a folder with files for dev and test."),
    ] = None,
    test: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="CoNLL-U file to score on; default: the second half of the treebank.",
        ),
    ] = None,
    labels: Annotated[
        str | None,
        Option(metavar="FILE", help="Gold label of each text, for the importance of heads."),
    ] = None,
    least: Annotated[
        int, Option(min=1, help="Fewest words of a relation, in dev and in test.")
    ] = 100,
    *,
    views: formats.ViewOptions,
    device: options.DEVICE = None,
    output: formats.TableOptions,
) -> None:
    """Report what each attention head does.

    For every head: entropy of its weights, the relative offset that most words attend to, weight on
    special tokens and on the first token, and how often it attends most to a rare word. Causal
    models read all tokens twice, too, for previous-token, duplicate-token and induction scores;
    models of images have the mean distance of attention in patches. Importance is the mean absolute
    gradient of the loss with respect to a gate of the head: the loss of a language model on the
    texts, or of a classifier with --labels.

    With --treebank, the largest weight of a word predicts its syntactic head. For each relation,
    the best head is chosen on dev and scored on test, beside the best fixed offset, with 95%
    intervals. Without --text, all figures are of the sentences of the treebank.

    Heads with a role come first. --html and --svg draw a grid of heads, coloured by role.

    Example: regard heads runs/bert/model --text runs/tour/corpus/test.en --html heads.html
    """
    from regard.api import load
    from regard.experiments.view_results import report_on_heads

    form = output.format
    if text is None and treebank is None:
        raise BadInput("give --text FILE, --treebank FILE, or both")
    if treebank is None:
        refuse({"test": test}, "needs --treebank")
    if text is None:
        refuse({"labels": labels}, "needs --text")
    report, tables = report_on_heads(
        load(model, device), text, treebank=treebank, test=test, labels=labels, least=least
    )
    print_result(tables, form)
    views.write(report, model=model)
