"""``regard mine``: pairs of texts of like meaning, in one file or between two."""

from typing import Annotated, Literal

from typer import Argument, Option

from regard.cli.io.console import note, print_json, print_line, show_event
from regard.cli.io.files import refuse_images
from regard.core.errors import BadInput
from regard.experiments import options


def mine(
    model: options.MODEL,
    file: Annotated[str, Argument(metavar="FILE", help="File with one text per line, or a table.")],
    other: Annotated[
        str | None, Argument(metavar="[FILE]", help="Second file, to find pairs between both.")
    ] = None,
    score: Annotated[
        Literal["cosine", "margin"] | None,
        Option(help="Score of pairs; default: cosine in one file, margin between two."),
    ] = None,
    neighbours: Annotated[
        int, Option(min=1, help="Number of nearest texts that are candidates for each text.")
    ] = 4,
    least: Annotated[float | None, Option("--least", help="Lowest score that is printed.")] = None,
    top: Annotated[int | None, Option(min=1, help="Number of pairs; default: all.")] = None,
    column: options.COLUMN = None,
    pool: options.POOL = None,
    as_json: options.JSON = False,
    *,
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
    from regard.inference.document_ranking import unit_vectors
    from regard.inference.nearest import mine_between, mine_within

    texts, repeated = _texts(file, column)
    likes, more = (texts, 0) if other is None else _texts(other, column)
    loaded = runs.load(model)
    refuse_images(loaded, model)
    embedder = loaded.runner.embedder(pool)
    vectors_ND = unit_vectors(embedder, [*texts])
    if other is None:
        pairs = mine_within(vectors_ND, neighbours, score or "cosine")
    else:
        likes_TD = unit_vectors(embedder, [*likes])
        pairs = mine_between(vectors_ND, likes_TD, neighbours, score or "margin")
    first, second = [*texts.items()], [*likes.items()]
    chosen = [pair for pair in pairs if least is None or pair.score >= least][:top]
    for pair in chosen:
        (text, line), (like, like_line) = first[pair.first], second[pair.second]
        if as_json:
            record = {"score": pair.score, "first": text, "second": like}
            print_json({**record, "first_line": line, "second_line": like_line})
        else:
            print_line(f"{pair.score:.4f}\t{text}\t{like}")
    left_out = f"; {repeated + more:,} repeated texts left out" if repeated + more else ""
    note(f"{len(chosen):,} pairs of {len(first):,} and {len(second):,} texts{left_out}")


def _texts(file: str, columns: list[str] | None) -> tuple[dict[str, int], int]:
    """The texts of a file, with tabs as spaces, and the line of each, counted from 1.

    Also the number of texts that are left out because they are repeated.
    """
    from regard.data.readers.text_files import name_of
    from regard.experiments.bulk.table_source import read_texts

    texts: dict[str, int] = {}
    repeated = 0
    for number, line in read_texts(file, columns, show_event):
        if text := " ".join(line.split()):
            repeated += text in texts
            texts.setdefault(text, number)
    if not texts:
        raise BadInput(f"{name_of(file)}: no texts")
    return texts, repeated
