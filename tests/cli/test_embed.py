"""``regard embed``."""

import json

import numpy as np
import pytest

from small_bert import SENTENCES, model
from verb import run

STDIN = f"{SENTENCES[0]}\n\nThe storm\tcame in\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("embedder") / "model"
    model("states").save(place)
    return place


def wanted(**options):
    return model("states").embed([SENTENCES[0], ("The storm", "came in")], **options).numpy()


def test_help_has_an_example():
    assert "Example:" in run("embed", "--help").stdout


def test_lines_of_numbers(folder):
    printed = run("embed", folder, stdin=STDIN).stdout.split("\n")
    assert printed[1] == printed[3] == ""
    found = [[float(one) for one in printed[i].split()] for i in (0, 2)]
    np.testing.assert_allclose(found, wanted(), atol=1e-5)
    done = run("embed", folder, "--json", "--pool", "first", "--normalise", stdin=STDIN)
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert records[1] == {"line": 2, "vector": None}
    found = [records[i]["vector"] for i in (0, 2)]
    np.testing.assert_allclose(found, wanted(pool="first", normalise=True), atol=1e-5)


def test_a_prompt_is_put_before_each_line(tmp_path):
    loaded = model("states")
    loaded.notes["embedding"] = {"pool": "mean", "prompts": {"query": "the storm: "}}
    loaded.save(tmp_path / "model")
    done = run("embed", tmp_path / "model", "--prompt-name", "query", stdin="gulls\n\ncame in\n")
    printed = done.stdout.split("\n")
    assert printed[1] == ""
    found = [[float(one) for one in printed[i].split()] for i in (0, 2)]
    expected = model("states").embed(["the storm: gulls", "the storm: came in"]).numpy()
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_a_file_of_vectors(folder, tmp_path):
    out = tmp_path / "vectors.npy"
    done = run("embed", folder, "--out", out, stdin=STDIN)
    assert done.stdout == "" and "3 vectors of 16" in done.stderr
    found = np.load(out, allow_pickle=False)
    assert found.dtype == np.float32 and found.shape == (3, 16) and not found[1].any()
    np.testing.assert_allclose(found[[0, 2]], wanted(), atol=1e-5)
    run("embed", folder, "--out", out, stdin="")
    assert np.load(out, allow_pickle=False).shape == (0, 16)


def test_a_file_is_written_whole_or_not_at_all(folder, tmp_path):
    out = tmp_path / "vectors.npy"
    refused = run("embed", folder, "--out", out, stdin="cat\na\tb\tc\n", code=2)
    assert "standard input:2: 3 texts between tabs" in refused.stderr
    assert list(tmp_path.iterdir()) == []


def test_what_is_wrong_is_reported(folder, tmp_path):
    refused = run("embed", folder, "--pool", "median", stdin="cat\n", code=2)
    assert "Invalid value for '--pool'" in refused.stderr
    refused = run("embed", folder, "--out", tmp_path / "a.npy", "--json", stdin="cat\n", code=2)
    assert "--json: vectors are printed, or written to a file" in refused.stderr


def test_other_models_have_vectors_too(small_run):
    done = run("embed", small_run / "run" / "model", "--json", stdin="dog cow\n\n")
    first, empty = (json.loads(line)["vector"] for line in done.stdout.splitlines())
    assert len(first) == 16 and empty is None


def test_the_name_of_a_file_says_how_vectors_are_written(folder, tmp_path):
    for suffix, options in ((".txt", ()), (".jsonl", ("--json",))):
        out = tmp_path / f"vectors{suffix}"
        run("embed", folder, "--out", out, stdin=STDIN)
        assert out.read_text() == run("embed", folder, *options, stdin=STDIN).stdout
    run("embed", folder, "--out", tmp_path / "vectors.tsv", stdin=STDIN)
    text = (tmp_path / "vectors.txt").read_text()
    assert (tmp_path / "vectors.tsv").read_text() == text.replace(" ", "\t")
    for name in ("vectors.csv", "vectors"):
        refused = run("embed", folder, "--out", tmp_path / name, stdin=STDIN, code=2)
        assert refused.stderr.endswith(
            "the name of a file of vectors ends in .npy, .txt, .tsv, .jsonl\n"
        )
        assert not (tmp_path / name).exists()


def test_a_translator_has_no_pooled_state(small_run):
    done = run("embed", small_run / "run" / "model", "--pool", "pooled", stdin="dog\n", code=2)
    assert done.stderr == "regard: pool 'pooled': this model has no pool; use mean, max or first\n"
