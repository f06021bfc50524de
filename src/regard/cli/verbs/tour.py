"""``regard tour``: training, measuring and inspecting a model on a built-in toy language."""

from pathlib import Path
from typing import Annotated

from typer import Exit

from regard.cli import options


def tour(
    out: Annotated[Path, options.OUT_FOLDER] = Path("runs/tour"), quick: options.QUICK = False
) -> None:
    """Train, measure and inspect a small model on a toy language.

    A Transformer learns to translate a built-in language on a CPU, in about two minutes. Exits
    with code 1 if BLEU or the alignment error rate is worse than expected.

    Example: regard tour --out runs/tour
    """
    from regard.tour.steps import run_tour

    if not run_tour(out, quick):
        raise Exit(1)
