"""``regard tour``: training, measuring and inspecting a model on a built-in toy language."""

from pathlib import Path
from typing import Annotated

from typer import Exit

from regard.cli.io.console import OUT
from regard.experiments import options


def tour(
    out: Annotated[Path, options.OUT_FOLDER] = Path("runs/tour"), quick: options.QUICK = False
) -> None:
    """Train, measure and inspect a small model on a toy language.

    A Transformer learns to translate a built-in language on a CPU, in about two minutes. Exits
    with code 1 if BLEU or the alignment error rate is worse than expected.

    Example: regard tour --out runs/tour
    """
    from regard.cli.io.training_progress import TrainingProgress, stopped_by_signals
    from regard.tour import Tour

    with stopped_by_signals() as stop, TrainingProgress() as progress:
        reached = Tour(out, quick, OUT, progress, stop).run()
    if not reached:
        raise Exit(1)
