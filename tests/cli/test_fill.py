"""``regard fill``."""

import json
from pathlib import Path

import pytest

from small_bert import model
from verb import run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("filler") / "model"
    model("words").save(place)
    return place


def test_help_has_an_example():
    assert "Example:" in run("fill", "--help").stdout


def test_blanks_are_filled(folder):
    stdin = "The [MASK] came.\n\n[MASK] sailors [MASK]\n"
    one, two = model("words").fill(["The [MASK] came.", "[MASK] sailors [MASK]"], top=2)
    printed = run("fill", folder, "--top", 2, stdin=stdin).stdout.split("\n")
    text, *blanks = printed[0].split("\t")
    assert text == one.text and printed[1] == printed[3] == ""
    assert blanks == [", ".join(f"{word.word} {word.probability:.4f}" for word in one.blanks[0])]
    assert len(printed[2].split("\t")) == 3
    done = run("fill", folder, "--json", stdin=stdin)
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert [len(blank) for blank in records[2]["blanks"]] == [5, 5]
    assert records[2]["text"] == two.text
    assert records[1] == {"line": 2, "text": None, "blanks": None, "cut": None}


def test_what_is_wrong_is_reported(folder, tmp_path):
    (tmp_path / "in.txt").write_text("[MASK]\ncat\n")
    refused = run("fill", folder, tmp_path / "in.txt", code=2)
    assert "in.txt:2: the text has no mask token [MASK]" in refused.stderr
    assert refused.stdout == run("fill", folder, stdin="[MASK]\n").stdout
    refused = run("fill", folder, "--top", 0, stdin="", code=2)
    assert "top: the number of words must be at least 1, not 0" in refused.stderr
    model("states").save(tmp_path / "states")
    refused = run("fill", tmp_path / "states", stdin="[MASK]\n", code=2)
    assert "it has no masked-LM head" in refused.stderr


@pytest.mark.usefixtures("inline_workers")
def test_several_files_are_shared_out_and_bad_lines_are_skipped(folder, tmp_path):
    for name, lines in {"a.txt": "The [MASK] came.\ncat\n", "b.txt": "[MASK] sailors\n"}.items():
        (tmp_path / name).write_text(lines)
    files, options = (tmp_path / "a.txt", tmp_path / "b.txt"), ("--skip-bad", "--json")
    alone = run("fill", folder, *files, *options)
    shared = run("fill", folder, *files, *options, "--workers", 2)
    records = [json.loads(line) for line in shared.stdout.splitlines()]
    assert [(Path(one["file"]).name, one["line"]) for one in records] == [
        ("a.txt", 1),
        ("a.txt", 2),
        ("b.txt", 1),
    ]
    assert "no mask token" in records[1]["error"] and alone.stdout == shared.stdout
    assert "2 results of 3 inputs, 1 bad" in shared.stderr


def test_a_mask_that_is_not_read_is_named(folder, tmp_path):
    (tmp_path / "in.txt").write_text("cat [MASK]\n" + "cat " * 60 + "[MASK]\n")
    refused = run("fill", folder, tmp_path / "in.txt", code=2)
    assert "in.txt:2: a [MASK] is truncated: only 48 tokens are read" in refused.stderr
