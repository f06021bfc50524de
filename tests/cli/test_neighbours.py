"""``regard neighbours``."""

import json

import pytest

from small_bert import model
from verb import run

TEXT = "The storm came in.\n\nThe cat came in before the storm.\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("neighbours") / "model"
    model("states").save(place)
    return place


def test_help_has_an_example():
    assert "Example:" in run("neighbours", "--help").stdout


def test_static_and_contextual_neighbours_side_by_side(folder, tmp_path):
    (tmp_path / "vectors").write_text("storm 1 0\nrain 0.9 0.1\nyak 0 1\n")
    given = ("neighbours", folder, "Storm", "--vectors", tmp_path / "vectors", "--top", 3)
    lines = run(*given, stdin=TEXT).stdout.splitlines()
    assert lines[0] == "standard input:1: The [storm] came in ."
    assert lines[1].split() == ["static", "cosine", "in", "context", "cosine"]
    assert lines[2].split()[:2] == ["rain", "0.994"] and lines[3].split()[:2] == ["yak", "0.000"]
    assert lines[5] == "" and lines[6].startswith("standard input:3: The cat came in before")
    records = [json.loads(line) for line in run(*given, "--json", stdin=TEXT).stdout.splitlines()]
    assert [one["line"] for one in records] == [1, 3]
    assert [one["word"] for one in records[0]["static"]] == ["rain", "yak"]
    assert len(records[0]["contextual"]) == 3
    shown = [one.split()[-1] for one in lines[2:5]]
    assert all(shown) and {"word", "line", "place", "words", "cosine"} == {
        *records[0]["contextual"][0]
    }


def test_a_text_of_the_command_line_and_the_embedding_layer(folder):
    given = ("neighbours", folder, "cat", "--text", "A cat sings", "--layer", 0, "--json")
    (record,) = map(json.loads, run(*given, stdin=TEXT).stdout.splitlines())
    assert record["line"] is None and record["words"] == ["A", "cat", "sings"]
    assert {one["word"] for one in record["static"]} <= {
        "The",
        "the",
        "storm",
        "came",
        "in",
        "before",
    }
    assert record["contextual"][0]["word"] == "cat"


def test_texts_of_the_command_line_are_compared_where_there_are_no_others(folder, tmp_path):
    texts = ("A cat sings", "The cat came in before the storm .")
    options = ("--top", 9, *(one for text in texts for one in ("--text", text)))
    given = ("neighbours", folder, "cat", *options)
    records = [json.loads(line) for line in run(*given, "--json", stdin="").stdout.splitlines()]
    for record, own, other in zip(records, texts, reversed(texts), strict=True):
        assert record["words"] == own.split() and len(record["contextual"]) == 9
        found = [one["words"] for one in record["contextual"] if one["word"] == "cat"]
        assert found == [other.split()]
    assert "--text: A [cat] sings" in run(*given, stdin="").stdout.partition("The [cat]")[2]
    (tmp_path / "empty.txt").write_text("\n")
    refused = run(*given[:3], tmp_path / "empty.txt", *options, code=2)
    assert "empty.txt: has no text" in refused.stderr


def test_what_is_wrong_is_reported(folder):
    refused = run("neighbours", folder, "whale", stdin=TEXT, code=2)
    assert "standard input: the word 'whale' does not occur" in refused.stderr
    for options, reason in (
        ((), "62 tokens, and the model reads 48: shorten it"),
        (("--max-length", 9), "62 tokens, more than 9; split the line"),
    ):
        given = ("neighbours", folder, "cat", *options)
        refused = run(*given, stdin=f"cat\n{'storm ' * 60}\n", code=2)
        assert f"standard input:2: {reason}" in refused.stderr
    refused = run("neighbours", folder, "cat", "--layer", 9, stdin=TEXT, code=2)
    assert "layer 9 asked for" in refused.stderr
    refused = run("neighbours", folder, " ", stdin=TEXT, code=2)
    assert "there is no text" in refused.stderr
