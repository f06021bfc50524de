"""``regard frames``: brackets, JSON and arcs of one sentence."""

import json

import pytest

from small_roles import small_labeller
from verb import run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("roles") / "model"
    small_labeller().save(folder)
    return folder


def test_frames_of_a_sentence(folder, tmp_path):
    command = ("frames", folder, "The owl came in.", "--predicate", 2, "--predicate", 3)
    lines = run(*command, "--svg", tmp_path / "owl.svg").stdout.splitlines()
    assert len(lines) == 2 and "[V came" in lines[0] and "[V in" in lines[1]
    assert (tmp_path / "owl.svg").read_text().startswith("<svg ")
    record = json.loads(run(*command, "--json").stdout)
    assert record["tokens"] == ["The", "owl", "came", "in", "."]
    assert [(one["index"], one["word"]) for one in record["predicates"]] == [(2, "came"), (3, "in")]
    spaced = json.loads(run(*command, "--json", "--pretokenised").stdout)
    assert spaced["tokens"] == ["The", "owl", "came", "in."]


def test_predicates_are_found(folder):
    found = small_labeller().predictor.find_predicates([["The", "owl"]])[0]
    printed = run("frames", folder, "The owl").stdout.splitlines()
    assert len(printed) == max(1, len(found))
    assert found or printed == ["no predicate"]
