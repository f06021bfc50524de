"""``regard tree``."""

import json
import re
import subprocess
from dataclasses import replace

import pytest

from regard.api import load
from regard.generation import Beam
from small import command, environment
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
    assert "hypothesis" in done.stdout and "log p / n^1.4" in done.stdout
    assert html.read_text().lstrip().lower().startswith("<!doctype html>")
    assert svg.read_text().startswith("<svg")
    assert done.stderr.splitlines() == [f"wrote {html}", f"wrote {svg}"]


@pytest.mark.parametrize(
    ("options", "beam"),
    [
        ((), Beam(2)),  # as its recipe says
        (("--beam", 5, "--length", "none"), Beam(5, length="none")),
        (("--coverage", 0.2, "--no-repeat", 2), Beam(2, coverage=0.2, no_repeat=2)),
        (
            ("--beam", 5, "--stop", "transformers", "--length", "power", "--alpha", 1),
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


def test_a_published_folder_is_searched_as_published(tmp_path):
    from marian_folders import write_marian

    folder = tmp_path / "folder"
    write_marian(folder)
    text = "The old man reads a book."
    published = load(folder, "cpu").translator.generation_settings.search
    record = json.loads(run("tree", folder, text, "--json", "--device", "cpu").stdout)
    said = run("translate", folder, "--json", "--device", "cpu", stdin=f"{text}\n").stdout
    assert record["formula"] == published.formula
    assert record["found"][0]["score"] == pytest.approx(json.loads(said)["score"], abs=1e-5)
    record = json.loads(run("tree", folder, text, "--json", "--beam", 2).stdout)
    assert record["formula"] == replace(published, size=2).formula


@pytest.mark.slow
def test_a_closed_pipe_ends_it_quietly_and_files_are_written(model, tmp_path):
    page = tmp_path / "tree.html"
    words = " ".join(command("tree", model, "'dog cow owl pig'", "--pruned", 99, "--html", page))
    lines = "; ".join([f"{words} | true", "exit ${PIPESTATUS[0]}"])
    done = subprocess.run(
        ["bash", "-c", lines], capture_output=True, text=True, env=environment(), check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == f"wrote {page}\n" and page.read_text().endswith("</html>\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((" ",), "the text is empty"),
        (("dog", "--beam", 0), "size of a beam must be at least 1, not 0"),
        (("dog", "--alpha", "nan"), "alpha must be"),
    ],
)
def test_what_makes_no_sense_is_refused(model, arguments, said):
    (line,) = run("tree", model, *arguments, code=2).stderr.splitlines()
    assert said in line and "Beam(" not in line


def test_json_has_all_candidates(model):
    refused = run("tree", model, "dog cow", "--json", "--pruned", 1, code=2)
    assert "--pruned: cannot be used with --json" in refused.stderr
