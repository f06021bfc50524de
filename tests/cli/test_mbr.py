"""``regard translate --search mbr``."""

import json
from functools import partial

import pytest

import verb

TEXT = "dog cow\n\nowl\nfox hen\n"
run = partial(verb.run, stdin=TEXT)


@pytest.fixture(scope="module")
def model(small_run):
    return small_run / "run" / "model"


@pytest.mark.parametrize("utility", ["chrf", "bleu"])
def test_the_same_in_any_batch(model, utility):
    options = ("--search", "mbr", "--samples", 6, "--utility", utility, "--json")
    done = run("translate", model, *options)
    records = [json.loads(line) for line in done.stdout.splitlines()]
    alone = run("translate", model, *options, "--batch-size", 1).stdout.splitlines()
    for one, other in zip(records, map(json.loads, alone), strict=True):
        assert one["text"] == other["text"] and one["score"] == pytest.approx(other["score"])
    assert [one["line"] for one in records] == [1, 2, 3, 4]
    name = {"chrf": "chrF", "bleu": "BLEU"}[utility]
    assert f"score = mean sentence {name} over 6 samples" in done.stderr


def test_candidates_of_a_beam(model):
    beam = run("translate", model, "--beam", 3, "--best", 3, "--json")
    options = ("--candidates", "beam", "--beam", 3, "--samples", 5, "--best", 2, "--json")
    found = run("translate", model, "--search", "mbr", *options)
    known = {(one["line"], one["text"]) for one in map(json.loads, beam.stdout.splitlines())}
    records = [json.loads(line) for line in found.stdout.splitlines()]
    assert {(one["line"], one["text"]) for one in records} <= known
    first, second = [one["score"] for one in records if one["line"] == 4]
    assert first >= second


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--search", "mbr", "--beam", 3), "cannot be used with options of sampling"),
        (("--search", "mbr", "--coverage", 0.1), "--coverage: cannot be used with --search mbr"),
        (("--samples", 3), "--samples: cannot be used with --search beam"),
        (("--search", "mbr", "--samples", 0), "samples must be at least 1, not 0"),
    ],
)
def test_options_are_checked_before_a_model_is_loaded(tmp_path, options, said):
    assert said in run("translate", tmp_path / "none", *options, code=2).stderr
