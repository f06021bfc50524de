"""``regard tour``: training, measuring and inspecting a model on a built-in toy language."""

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import OUT_FOLDER, QUICK


def tour(out: Annotated[Path, OUT_FOLDER] = Path("runs/tour"), quick: QUICK = False) -> None:
    """Train, measure and inspect a small model on a toy language.

    A Transformer learns to translate a built-in language on a CPU, in about two minutes. Exits
    with code 1 if BLEU or the alignment error rate is worse than expected.

    Example: regard tour --out runs/tour
    """
    from regard.tour.steps import run_tour

    if not run_tour(out, quick):
        raise typer.Exit(1)
