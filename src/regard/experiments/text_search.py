"""Rankings of documents for queries, scored by judgements, and pairs of texts of like meaning."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from regard.api import Model
from regard.core.errors import BadInput
from regard.data.readers.beir import Relevances, read_judgements, read_texts_by_id
from regard.data.readers.text_files import name_of
from regard.experiments.bulk.table_source import read_texts
from regard.experiments.notes import Listener, Note, ignore
from regard.experiments.options import LoadOptions
from regard.experiments.options.measuring import MiningOptions, RetrievalOptions
from regard.experiments.result import (
    ExperimentResult,
    OutputTable,
    number_column,
    score_table,
    text_column,
)
from regard.inference.classifier import Classifier
from regard.inference.document_ranking import (
    Hits,
    rerank_by_classifier,
    rerank_by_vectors,
    retrieve_documents,
    unit_vectors,
    without_own_ids,
)
from regard.inference.nearest import mine_between, mine_within
from regard.metrics.retrieval import retrieval_scores
from regard.metrics.translation import MetricScore
from regard.tasks.classify import Classify

STORED = LoadOptions()  # precision and device of the folder


@dataclass(frozen=True)
class Ranking(ExperimentResult):
    """Documents for each query, the best first; with judgements, the scores of the ranking."""

    documents: Hits
    scores: Sequence[MetricScore] = ()

    def tables(self) -> list[OutputTable]:
        if self.scores:
            return [score_table({"": self.scores})]
        columns = [*map(text_column, ("query", "document")), number_column("score", ".6f")]
        rows = [(query, *hit) for query, hits in self.documents.items() for hit in hits]
        return [OutputTable(columns, rows)]

    def records(self) -> Iterator[Mapping[str, object]]:
        if self.scores:
            return iter([{score.name: score.value for score in self.scores}])
        return iter(super().records())

    def text(self, width: int | None = None) -> Iterator[str]:
        if self.scores:
            return map(str, self.scores)
        (table,) = self.tables()
        return map("\t".join, table.texts)


def retrieve(
    model: str | Path | Model,
    queries: str | Path,
    corpus: str | Path,
    options: RetrievalOptions,
    runs: LoadOptions = STORED,
    *,
    on_event: Listener = ignore,
) -> Ranking:
    """Rank the documents of a corpus for queries; with ``qrels``, score the ranking by them."""
    options.check()
    texts, documents = read_texts_by_id(Path(queries)), read_texts_by_id(Path(corpus))
    judged, partly = None if options.qrels is None else read_judgements(options.qrels), ""
    if judged is not None:
        judged, partly = _common(judged, texts, queries, options.qrels)
        texts = {query: texts[query] for query in judged}
    listed = None if options.rerank is None else read_judgements(options.rerank)
    hits = _hits(runs.load_for_texts(model), texts, documents, listed, options, judged is not None)
    size = f"{len(texts):,} queries, {len(documents):,} documents{partly}"
    if judged is not None and not options.keep_own:
        others = without_own_ids(hits)
        own = sum(len(of) - len(others[query]) for query, of in hits.items())
        size += f"; {own:,} documents with the id of their query left out" if own else ""
        hits = others
    ranked, scores = {query: of[: options.top] for query, of in hits.items()}, list[MetricScore]()
    if judged is not None:
        names = {query: [name for name, _ in of] for query, of in ranked.items()}
        scores = retrieval_scores(names, judged, options.interval)
    on_event(Note(size))
    return Ranking(ranked, scores)


def _common(
    judged: Relevances, texts: Mapping[str, str], queries: object, qrels: object
) -> tuple[Relevances, str]:
    """The judgements of queries that have a text, and a remark if some have only one of them."""
    both = {query: of for query, of in judged.items() if query in texts}
    if not both:
        raise BadInput(f"{qrels}: no query of {queries} has the _id {next(iter(judged))!r}")
    if max(len(texts), len(judged)) == len(both):
        return both, ""
    sizes = f"{queries} has {len(texts):,} and {qrels} {len(judged):,} queries"
    return both, f"; {sizes}: those in both are scored"


def _hits(
    model: Model,
    queries: Mapping[str, str],
    documents: Mapping[str, str],
    listed: Relevances | None,
    options: RetrievalOptions,
    scored: bool,
) -> Hits:
    """All documents, or those that are listed, in the order of their scores."""
    if listed is None:
        embedder = model.runner.embedder(options.pool)
        return retrieve_documents(embedder, queries, documents, options.top + scored)
    chosen = {query: [*of] for query, of in listed.items() if query in queries}
    if Classify.head.name in model.encoder.facts.head_names:
        classifier = cast(Classifier, model.predictor)
        return rerank_by_classifier(classifier, queries, documents, chosen)
    return rerank_by_vectors(model.runner.embedder(options.pool), queries, documents, chosen)


@dataclass(frozen=True)
class LikeTexts:
    """Two texts of like meaning, with their score and their lines, from 1."""

    score: float
    first: str
    second: str
    first_line: int
    second_line: int


@dataclass(frozen=True)
class MinedTexts(ExperimentResult):
    """Pairs of texts of like meaning, the most alike first."""

    pairs: Sequence[LikeTexts]

    def tables(self) -> list[OutputTable]:
        columns = [number_column("score", ".4f"), *map(text_column, ("first", "second"))]
        columns += map(number_column, ("first_line", "second_line"))
        return [OutputTable(columns, [[*vars(pair).values()] for pair in self.pairs])]

    def text(self, width: int | None = None) -> Iterator[str]:
        for pair in self.pairs:
            yield f"{pair.score:.4f}\t{pair.first}\t{pair.second}"


def mine(
    model: str | Path | Model,
    file: str,
    other: str | None,
    options: MiningOptions,
    runs: LoadOptions = STORED,
    *,
    on_event: Listener = ignore,
) -> MinedTexts:
    """Pairs of texts of like meaning in one file, or between two; repeated texts are left out."""
    texts, repeated = _texts(file, options, on_event)
    likes, more = (texts, 0) if other is None else _texts(other, options, on_event)
    embedder = runs.load_for_texts(model).runner.embedder(options.pool)
    vectors_ND = unit_vectors(embedder, [*texts])
    if other is None:
        pairs = mine_within(vectors_ND, options.neighbours, options.score or "cosine")
    else:
        likes_TD = unit_vectors(embedder, [*likes])
        score = options.score or "margin"
        pairs = mine_between(vectors_ND, likes_TD, options.neighbours, score)
    first, second = [*texts.items()], [*likes.items()]
    likely = [pair for pair in pairs if options.least is None or pair.score >= options.least]
    chosen = likely[: options.top]
    left_out = f"; {repeated + more:,} repeated texts left out" if repeated + more else ""
    counts = f"{len(chosen):,} pairs of {len(first):,} and {len(second):,} texts"
    on_event(Note(counts + left_out))
    mined = []
    for pair in chosen:
        (text, line), (like, like_line) = first[pair.first], second[pair.second]
        mined.append(LikeTexts(pair.score, text, like, line, like_line))
    return MinedTexts(mined)


def _texts(file: str, options: MiningOptions, on_event: Listener) -> tuple[dict[str, int], int]:
    """The texts of a file, with tabs as spaces, and the line of each, counted from 1.

    Also the number of texts that are left out because they are repeated.
    """
    texts: dict[str, int] = {}
    repeated = 0
    for number, line in read_texts(file, options.column, on_event):
        if text := " ".join(line.split()):
            repeated += text in texts
            texts.setdefault(text, number)
    if not texts:
        raise BadInput(f"{name_of(file)}: no texts")
    return texts, repeated
