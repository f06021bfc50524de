"""``regard retrieve``: documents for queries, and their scores by judgements."""

from pathlib import Path
from typing import Annotated

from typer import Argument

from regard.cli.io.console import print_result, show_event
from regard.experiments import options
from regard.experiments.options.measuring import RetrievalOptions


def retrieve(
    model: options.MODEL,
    queries: Annotated[Path, Argument(metavar="QUERIES", help="JSON lines with _id and text.")],
    corpus: Annotated[
        Path, Argument(metavar="CORPUS", help="JSON lines with _id, text and perhaps title.")
    ],
    how: RetrievalOptions,
    as_json: options.JSON = False,
    *,
    runs: options.LoadOptions,
) -> None:
    """Rank documents for queries, and score the ranking by judgements.

    Files are as in BEIR: queries.jsonl, corpus.jsonl (a title stands before its text), and
    qrels/test.tsv. Each line of the output has query, document, and score (the cosine of their
    vectors), separated by tabs; with --qrels, only nDCG@10, MRR@10 and recall at 1, 10 and 100 are
    printed, for the queries that have judgements. Judgements of other queries are left out, and,
    as in BEIR, documents that have the id of their query (--keep-own scores them).

    With --rerank, only the documents that the file lists for a query (query, document, number) are
    ranked: by their vectors or, if MODEL classifies pairs, by its score of query and document (a
    cross-encoder).

    Example: regard retrieve all-MiniLM-L6-v2 queries.jsonl corpus.jsonl --qrels qrels/test.tsv
    """
    from regard.experiments import text_search

    ranking = text_search.retrieve(model, queries, corpus, how, runs, on_event=show_event)
    print_result(ranking, "json" if as_json else "text")
