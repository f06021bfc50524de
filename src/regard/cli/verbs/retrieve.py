"""``regard retrieve``: documents for queries, and their scores by judgements."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

from typer import Argument, Option

from regard.cli.io.console import note, print_json, print_line
from regard.cli.io.files import refuse_images
from regard.core.errors import BadInput
from regard.core.flags import refuse
from regard.experiments import options

if TYPE_CHECKING:
    from regard.inference.classifier import Classifier


def retrieve(
    model: options.MODEL,
    queries: Annotated[Path, Argument(metavar="QUERIES", help="JSON lines with _id and text.")],
    corpus: Annotated[
        Path, Argument(metavar="CORPUS", help="JSON lines with _id, text and perhaps title.")
    ],
    qrels: Annotated[
        Path | None,
        Option("--qrels", metavar="FILE", help="Judgements: score the ranking by them."),
    ] = None,
    rerank: Annotated[
        Path | None,
        Option("--rerank", metavar="FILE", help="Rank only the documents listed for each query."),
    ] = None,
    top: Annotated[int, Option(min=1, help="Number of documents for each query.")] = 100,
    keep_own: Annotated[
        bool, Option("--keep-own", help="Score documents that have the id of their query as well.")
    ] = False,
    pool: options.POOL = None,
    interval: options.INTERVAL = False,
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
    from regard.data.readers.beir import read_judgements, read_texts_by_id
    from regard.inference.document_ranking import (
        rerank_by_classifier,
        rerank_by_vectors,
        retrieve_documents,
        without_own_ids,
    )
    from regard.metrics.retrieval import retrieval_scores
    from regard.tasks.classify import Classify

    if qrels is None:
        scoring = {"interval": interval, "keep_own": keep_own}
        refuse(scoring, "needs --qrels, by which the ranking is scored")
    query_texts, documents = read_texts_by_id(queries), read_texts_by_id(corpus)
    judged, partly = None if qrels is None else read_judgements(qrels), ""
    if judged is not None:
        both = {query: of for query, of in judged.items() if query in query_texts}
        if not both:
            raise BadInput(f"{qrels}: no query of {queries} has the _id {next(iter(judged))!r}")
        if max(len(query_texts), len(judged)) > len(both):
            sizes = f"{queries} has {len(query_texts):,} and {qrels} {len(judged):,} queries"
            partly = f"; {sizes}: those in both are scored"
        judged, query_texts = both, {query: query_texts[query] for query in both}
    listed = None if rerank is None else read_judgements(rerank)
    loaded = runs.load(model)
    refuse_images(loaded, model)
    if listed is None:
        embedder = loaded.runner.embedder(pool)
        hits = retrieve_documents(embedder, query_texts, documents, top + (judged is not None))
    else:
        chosen = {query: [*of] for query, of in listed.items() if query in query_texts}
        if Classify.head.name in loaded.encoder.facts.head_names:
            classifier = cast("Classifier", loaded.predictor)
            hits = rerank_by_classifier(classifier, query_texts, documents, chosen)
        else:
            hits = rerank_by_vectors(loaded.runner.embedder(pool), query_texts, documents, chosen)
    size = f"{len(query_texts):,} queries, {len(documents):,} documents{partly}"
    if judged is None:
        note(size)
        for query, of in hits.items():
            for name, value in of[:top]:
                if as_json:
                    print_json({"query": query, "document": name, "score": value})
                else:
                    print_line(f"{query}\t{name}\t{value:.6f}")
        return
    if not keep_own:
        others = without_own_ids(hits)
        own = sum(len(of) - len(others[query]) for query, of in hits.items())
        size += f"; {own:,} documents with the id of their query left out" if own else ""
        hits = others
    ranked = {query: [name for name, _ in of[:top]] for query, of in hits.items()}
    scores = retrieval_scores(ranked, judged, interval)
    note(size)
    if as_json:
        print_json({score.name: score.value for score in scores})
        return
    for score in scores:
        print_line(str(score))
