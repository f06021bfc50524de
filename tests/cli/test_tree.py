"""``regard tree``."""

import json
import re

import pytest

from regard.api import load
from regard.search import Beam
from verb import run


@pytest.fixture(scope="module")
def model(small_run):
    return small_run / "run" / "model"


def test_help_has_an_example():
    text = run("tree", "--help").stdout
    assert "Example:" in text and "regard tree runs/tour/model" in re.sub(r"\s+", " ", text)


def test_the_terminal_the_page_and_the_drawing(model, tmp_path):
    html, svg = tmp_path / "tree.html", tmp_path / "tree.svg"
    done = run("tree", model, "dog cow", "--beam", 3, "--html", html, "--svg", svg, "--pruned", 1)
    assert "dog cow" in done.stdout and "beam of 3" in done.stdout
    assert "set aside" in done.stdout and "log p / n^1.4" in done.stdout
    assert html.read_text().lstrip().lower().startswith("<!doctype html>")
    assert svg.read_text().startswith("<svg")
    assert done.stderr.splitlines() == [f"wrote {html}", f"wrote {svg}"]


@pytest.mark.parametrize(
    ("options", "beam"),
    [
        ((), Beam(5)),
        (("--beam", 2, "--length", "none"), Beam(2, length="none")),
        (("--coverage", 0.2, "--no-repeat", 2), Beam(5, coverage=0.2, no_repeat=2)),
        (
            ("--stop", "transformers", "--length", "power", "--alpha", 1),
            Beam(5, length="power", alpha=1, stop="transformers"),
        ),
    ],
)
def test_it_is_the_search_of_translate(model, options, beam):
    record = json.loads(run("tree", model, "dog cow owl", "--json", *options).stdout)
    ((found,),) = load(model).translate(["dog cow owl"], beam)
    assert record["found"][0]["text"] == found.text
    assert record["found"][0]["score"] == pytest.approx(found.score, abs=1e-5)
    assert record["formula"] == beam.formula
    nodes = record["nodes"]
    assert nodes[record["winner"][-1]]["score"] == record["found"][0]["score"]
    assert all(nodes[one["parent"]]["step"] == one["step"] - 1 for one in nodes[1:])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((" ",), "no text"),
        (("dog", "--beam", 0), "at least 1"),
        (("dog", "--alpha", "nan"), "alpha must be"),
    ],
)
def test_what_makes_no_sense_is_refused(model, arguments, said):
    assert said in run("tree", model, *arguments, code=2).stderr
