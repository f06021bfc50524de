"""``regard retrieve`` and ``regard mine``: rankings, scores, reranking, pairs."""

import json

import numpy as np
import pytest
import torch

from regard.inference.document_ranking import rerank_by_classifier
from regard.metrics.retrieval import retrieval_scores
from small_bert import SENTENCES, model
from verb import run

QUERIES = {"q1": "the storm came", "q2": "a small whale", "q3": "who met in London"}


def lines(path, records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("beir")
    model("states").save(folder / "model")
    model("number").save(folder / "judge")
    lines(folder / "queries.jsonl", [{"_id": name, "text": text} for name, text in QUERIES.items()])
    documents = [
        {"_id": f"d{number}", "title": "Storm" if number == 0 else "", "text": text}
        for number, text in enumerate(SENTENCES)
    ]
    lines(folder / "corpus.jsonl", documents)
    (folder / "qrels.tsv").write_text(
        "query-id\tcorpus-id\tscore\nq1\td0\t2\nq1\td3\t1\nq2\td2\t1\n"
    )
    (folder / "run.tsv").write_text("q1\td4\t3\nq1\td0\t2\nq1\td1\t1\nq3\td2\t1\nq3\td4\t0\n")
    return folder


def texts():
    return [f"Storm {SENTENCES[0]}", *SENTENCES[1:]]


def ranked(files, *more):
    out = run("retrieve", files / "model", files / "queries.jsonl", files / "corpus.jsonl", *more)
    return [line.split("\t") for line in out.stdout.splitlines()]


def expected_cosines():
    encoder = model("states")
    asked, documents = (
        torch.nn.functional.normalize(encoder.embed(of), dim=-1)
        for of in ([*QUERIES.values()], texts())
    )
    return asked @ documents.T


def test_documents_are_ranked_by_cosine(files):
    rows = ranked(files, "--top", 3)
    for query, cosines in zip(QUERIES, expected_cosines(), strict=True):
        best = cosines.topk(3)
        own = [row for row in rows if row[0] == query]
        assert [row[1] for row in own] == [f"d{i}" for i in best.indices.tolist()]
        assert [float(row[2]) for row in own] == pytest.approx(best.values.tolist(), abs=1e-5)
    records = run(
        *("retrieve", files / "model", files / "queries.jsonl", files / "corpus.jsonl"),
        *("--top", 1, "--json"),
    ).stdout.splitlines()
    assert [json.loads(line)["document"] for line in records] == [
        row[1] for number, row in enumerate(rows) if number % 3 == 0
    ]


def test_judgements_score_the_ranking(files):
    rankings = {
        query: [f"d{i}" for i in cosines.argsort(descending=True).tolist()]
        for query, cosines in zip(QUERIES, expected_cosines(), strict=True)
    }
    judged = {"q1": {"d0": 2.0, "d3": 1.0}, "q2": {"d2": 1.0}}
    expected = {score.name: score.value for score in retrieval_scores(rankings, judged)}
    arguments = files / "model", files / "queries.jsonl", files / "corpus.jsonl"
    done = run("retrieve", *arguments, "--qrels", files / "qrels.tsv", "--json")
    assert json.loads(done.stdout) == pytest.approx(expected)
    assert "2 queries, 5 documents" in done.stderr
    more = files / "more.tsv"  # judgements of a query that is not asked
    more.write_text((files / "qrels.tsv").read_text() + "q9\td0\t1\n")
    done = run("retrieve", *arguments, "--qrels", more, "--json")
    assert json.loads(done.stdout) == pytest.approx(expected)
    assert "queries.jsonl has 3 and" in done.stderr and "those in both are scored" in done.stderr
    printed = run("retrieve", *arguments, "--qrels", files / "qrels.tsv").stdout
    assert f"nDCG@10 {expected['nDCG@10']:.2f}" in printed


def test_a_document_with_the_id_of_its_query_is_not_scored(files, tmp_path):
    """As in BEIR, where queries of ArguAna and Quora are documents of the corpus."""
    texts = [{"_id": f"d{number}", "text": text} for number, text in enumerate(SENTENCES)]
    queries, corpus = lines(tmp_path / "queries.jsonl", texts), lines(tmp_path / "corpus", texts)
    encoder = model("states")
    vectors = torch.nn.functional.normalize(encoder.embed(SENTENCES), dim=-1)
    nearest = (vectors @ vectors.T).fill_diagonal_(-1).argmax(1).tolist()
    qrels = tmp_path / "qrels.tsv"
    qrels.write_text("".join(f"d{i}\td{j}\t1\n" for i, j in enumerate(nearest)))
    command = ("retrieve", files / "model", queries, corpus, "--qrels", qrels, "--json")
    done = run(*command, "--top", 1)
    assert json.loads(done.stdout)["nDCG@10"] == pytest.approx(100)
    assert f"{len(SENTENCES)} documents with the id of their query left out" in done.stderr
    kept = run(*command, "--keep-own")
    assert json.loads(kept.stdout)["nDCG@10"] == pytest.approx(100 / np.log2(3))
    assert "left out" not in kept.stderr
    (line,) = run(*command[:4], "--keep-own", code=2).stderr.splitlines()
    assert line == "regard: --keep-own: needs --qrels, by which the ranking is scored"


def test_candidates_are_reranked_by_vectors_or_by_a_classifier_of_pairs(files):
    rows = ranked(files, "--rerank", files / "run.tsv")
    cosines = expected_cosines()
    asked = {"q1": [4, 0, 1], "q3": [2, 4]}
    for query, of in asked.items():
        number = [*QUERIES].index(query)
        order = sorted(of, key=lambda i: -float(cosines[number, i]))
        assert [row[1] for row in rows if row[0] == query] == [f"d{i}" for i in order]
    judge = model("number")
    printed = run(
        *("retrieve", files / "judge", files / "queries.jsonl", files / "corpus.jsonl"),
        *("--rerank", files / "run.tsv", "--json"),
    ).stdout.splitlines()
    found = [json.loads(line) for line in printed]
    for query, of in asked.items():
        values = judge.predict([(QUERIES[query], texts()[i]) for i in of])
        scores = {f"d{i}": value.value for i, value in zip(of, values, strict=True)}
        own = {one["document"]: one["score"] for one in found if one["query"] == query}
        assert own == pytest.approx(scores)
        assert [*own] == sorted(scores, key=scores.get, reverse=True)


def test_two_labels_rank_by_the_odds_of_the_second():
    """As in a cross-encoder of the labels "no" and "yes"."""
    judge, asked, names = model("pair"), {"q": QUERIES["q1"]}, [f"d{i}" for i in range(5)]
    documents = dict(zip(names, texts(), strict=True))
    hits = rerank_by_classifier(judge.predictor, asked, documents, {"q": names})["q"]
    said = judge.predict([(QUERIES["q1"], documents[name]) for name in names])
    odds = {
        name: np.log(one.probabilities["yes"] / one.probabilities["no"])
        for name, one in zip(names, said, strict=True)
    }
    assert dict(hits) == pytest.approx(odds, abs=1e-4)
    assert [name for name, _ in hits] == sorted(odds, key=odds.get, reverse=True)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("corpus.jsonl", '{"_id": "a", "text": "x"}\n{"_id": "a", "text": "y"}\n', "a second text"),
        ("corpus.jsonl", '{"_id": "a"}\n', "corpus.jsonl:1: no key 'text'"),
        (
            "corpus.jsonl",
            '{"text": "x"}\n',
            """1: no key '_id'; each line is {"_id": …, "text": …}""",
        ),
        ("queries.jsonl", "", "no texts"),
        ("qrels.tsv", "q1\td0\t1\nq1\td1\tmuch\n", "qrels.tsv:2: the relevance 'much'"),
        ("qrels.tsv", "q9\td0\t1\n", "has the _id 'q9'"),
        ("qrels.tsv", "q1\td0\t0\n", "no query has a relevant document"),
        ("run.tsv", "q1\td9\t0\n", "no document has the _id"),
    ],
)
def test_bad_files_are_refused_in_one_line(files, name, content, message, tmp_path):
    names = ("queries.jsonl", "corpus.jsonl", "qrels.tsv", "run.tsv")
    for each in names:
        (tmp_path / each).write_text((files / each).read_text())
    (tmp_path / name).write_text(content)
    queries, corpus, qrels, candidates = (tmp_path / each for each in names)
    more = ("--rerank", candidates) if name == "run.tsv" else ()
    arguments = files / "model", queries, corpus, "--qrels", qrels, *more
    done = run("retrieve", *arguments, code=2)
    assert message in done.stderr and len(done.stderr.splitlines()) == 1 and not done.stdout


def test_pairs_of_one_file_and_of_two(files, tmp_path):
    one, two = tmp_path / "one.txt", tmp_path / "two.txt"
    one.write_text("\n".join([*SENTENCES, "", SENTENCES[0]]) + "\n")
    two.write_text("\n".join(reversed(SENTENCES)) + "\n")
    done = run("mine", files / "model", one, "--top", 2, "--json")
    found = [json.loads(line) for line in done.stdout.splitlines()]
    vectors = torch.nn.functional.normalize(model("states").embed(SENTENCES), dim=-1)
    cosines = (vectors @ vectors.T).fill_diagonal_(-1)
    assert found[0]["score"] == pytest.approx(float(cosines.max()), abs=1e-5)
    places = [SENTENCES.index(found[0][key]) for key in ("first", "second")]
    assert float(cosines[*places]) == pytest.approx(found[0]["score"], abs=1e-5)
    assert [found[0]["first_line"] - 1, found[0]["second_line"] - 1] == places
    assert len(found) == 2 and "2 pairs of 5 and 5 texts; 1 repeated" in done.stderr
    rows = [line.split("\t") for line in run("mine", files / "model", one, two).stdout.splitlines()]
    assert len(rows) == 5 and all(first == second for _, first, second in rows)
    assert run("mine", files / "model", one, "--least", 1.1).stdout == ""
    (tmp_path / "empty.txt").write_text("\n")
    refused = run("mine", files / "model", tmp_path / "empty.txt", code=2)
    assert "empty.txt: no texts" in refused.stderr


@pytest.mark.parametrize("verb", ["retrieve", "mine"])
def test_help_has_an_example(verb):
    assert "Example:" in run(verb, "--help").stdout


def test_pairs_of_tables(files, tmp_path):
    plain, table = tmp_path / "s.txt", lines(tmp_path / "q.jsonl", [{"text": t} for t in SENTENCES])
    plain.write_text("\n".join(SENTENCES) + "\n")
    expected = run("mine", files / "model", plain, plain, "--json").stdout
    assert run("mine", files / "model", plain, table, "--json").stdout == expected
    named = lines(tmp_path / "n.jsonl", [{"id": 1, "said": t} for t in SENTENCES])
    refused = run("mine", files / "model", plain, named, code=2).stderr
    assert "n.jsonl: which column is the text? Add --column, one of: id, said" in refused
    told = run("mine", files / "model", named, "--column", "said").stdout
    assert told == run("mine", files / "model", plain).stdout
    refused = run("mine", files / "model", named, "--column", "said", "--column", "id", code=2)
    assert "--column: one column has the texts, not 2" in refused.stderr
