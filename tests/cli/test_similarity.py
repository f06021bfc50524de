"""``regard similarity``."""

import json

import pytest

from small_bert import model
from verb import run


@pytest.fixture
def files(tmp_path):
    (tmp_path / "vectors").write_text("storm 1 0\ncame 0.9 0.1\ncat 0 1\nsailor 0.1 0.9\n")
    (tmp_path / "pairs").write_text("storm came 9\nstorm cat 1\nstorm sailor 2\nstorm yak 5\n")
    (tmp_path / "questions").write_text(": one\nstorm came cat sailor\n")
    return tmp_path


def test_help_has_an_example():
    assert "Example:" in run("similarity", "--help").stdout


def test_a_table_and_records(files):
    given = (files / "vectors", files / "pairs", files / "questions")
    done = run("similarity", *given)
    assert "4 words, 2 numbers each" in done.stderr
    assert [line.split() for line in done.stdout.splitlines()] == [
        ["test", "metric", "score", "known", "of"],
        ["pairs", "Spearman", "100.00", "3", "4"],
        ["questions:", "one", "accuracy", "100.00", "1", "1"],
        ["questions:", "all", "sections", "accuracy", "100.00", "1", "1"],
    ]
    records = [json.loads(line) for line in run("similarity", *given, "--json").stdout.splitlines()]
    assert records[0] == {
        **{"test": "pairs", "metric": "Spearman", "score": pytest.approx(100)},
        **{"known": 3, "total": 4, "words": 4},
    }
    (first, *_) = run("similarity", *given, "--words", 3, "--json").stdout.splitlines()
    assert json.loads(first)["known"] == 2


def test_the_embedding_layer_of_a_model(files, tmp_path):
    model("states").save(tmp_path / "model")
    done = run("similarity", tmp_path / "model", files / "pairs", "--json")
    record = json.loads(done.stdout)
    assert record["total"] == 4 and -100 <= record["score"] <= 100
    refused = run("similarity", tmp_path / "model", files / "pairs", "--words", 3, code=2)
    assert "--words: needs a file of vectors" in refused.stderr


@pytest.mark.parametrize(
    "pairs",
    ["storm came 5\nstorm cat 5\nstorm sailor 5\n", "storm came 5\ncame storm 1\n", "a b 1\n"],
)
def test_a_correlation_that_is_undefined_is_empty(pairs, files):
    (files / "pairs").write_text(pairs)
    done = run("similarity", files / "vectors", files / "pairs")
    assert len(done.stdout.splitlines()[1].split()) == 4
    record = json.loads(run("similarity", files / "vectors", files / "pairs", "--json").stdout)
    assert record["score"] is None


@pytest.mark.parametrize("judgement", ["nan", "-inf", "1e999"])
def test_judgements_are_finite(judgement, files):
    (files / "pairs").write_text(f"storm came 9\nstorm cat {judgement}\nstorm sailor 1\n")
    refused = run("similarity", files / "vectors", files / "pairs", code=2)
    assert f"pairs:2: {judgement} is not a finite number" in refused.stderr


def test_what_is_wrong_is_reported(files):
    refused = run("similarity", files / "vectors", files / "nowhere", code=2)
    assert "nowhere: cannot be read" in refused.stderr
    refused = run("similarity", files / "pairs", files / "pairs", code=2)
    assert "pairs:1: expected a word and the numbers of its vector" in refused.stderr


def test_scores_as_a_table(files):
    given = (files / "vectors", files / "pairs", files / "questions")
    _, _, first, *_ = run("similarity", *given, "--format", "markdown").stdout.splitlines()
    assert first == "| pairs | Spearman | 100.00 | 3 | 4 |"
