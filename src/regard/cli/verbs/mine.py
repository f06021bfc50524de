"""``regard mine``: pairs of texts of like meaning, in one file or between two."""

from typing import Annotated

from typer import Argument

from regard.cli.io.console import print_result, show_event
from regard.experiments import options
from regard.experiments.options.measuring import MiningOptions


def mine(
    model: options.MODEL,
    file: Annotated[str, Argument(metavar="FILE", help="File with one text per line, or a table.")],
    other: Annotated[
        str | None, Argument(metavar="[FILE]", help="Second file, to find pairs between both.")
    ] = None,
    *,
    how: MiningOptions,
    as_json: options.JSON = False,
    runs: options.LoadOptions,
) -> None:
    """Print pairs of texts of like meaning, the most alike first.

    In one file: paraphrases, among the nearest neighbours of each text. Between two files:
    translations or paraphrases, each text in at most one pair (Artetxe & Schwenk, 2019). Scores
    are the cosine of two vectors, or the margin: the cosine over the mean of the cosines with the
    nearest neighbours of both texts, so that texts which are near everything score low.

    Each line has score, text and text, separated by tabs; --json adds the numbers of lines, from 1.
    Of a table (CSV, TSV, JSON lines, Parquet) one column is read. Empty and repeated texts are left
    out. Memory grows with the number of texts, not with its square.

    Example: regard mine all-MiniLM-L6-v2 questions.txt --least 0.8
    """
    from regard.experiments import text_search

    mined = text_search.mine(model, file, other, how, runs, on_event=show_event)
    print_result(mined, "json" if as_json else "text")
