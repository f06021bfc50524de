"""``regard align``: word alignment from cross-attention."""

import json
from typing import Annotated

from typer import Argument

from regard.cli.io.console import note, print_result, show_event
from regard.experiments import options
from regard.experiments.options.measuring import AlignmentOptions


def align(
    model: options.MODEL,
    source: Annotated[
        str, Argument(metavar="SRC", help="Source sentences, one per line; or 'source ||| target'.")
    ],
    target: Annotated[
        str | None, Argument(metavar="TGT", help="Translations of SRC, line by line.")
    ] = None,
    *,
    how: AlignmentOptions,
    as_json: options.JSON = False,
    runs: options.LoadOptions,
) -> None:
    """Print word alignments read from cross-attention.

    One line for each pair: links source-target, counted from 0. Punctuation marks count as words,
    and so do the characters of scripts without spaces (Chinese, Japanese, Thai and the like); text
    with ||| is pretokenised. The alignment method (layer, head, step) is stored with the model (the
    tour chooses it on its dev set), else it is the last layer. The alignment error rate and the
    types of links are printed to standard error.

    With --reverse-model, a model that translates TGT to SRC aligns the same pairs, and both
    alignments are symmetrised. With --multiply, both are read from the product of the two attention
    matrices, which is often better. With --choose agreement, both models use the methods that agree
    most on the first pairs; this needs no gold links.

    Example: regard align runs/tour/model test.en test.de --gold test.links --kinds
    """
    from regard.experiments.alignment import align_files

    aligned = align_files(model, source, target, how, runs, on_event=show_event)
    print_result(aligned, "json" if as_json else "text")
    for figures in aligned.figures:
        note(json.dumps(figures.values) if as_json else str(figures))
