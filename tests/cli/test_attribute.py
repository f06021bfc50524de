"""``regard attribute``."""

import csv
import io
import json

import pytest

from regard.views.pages import records_in
from small_bert import model
from verb import run

TEXT = "The old cat came in"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("attribute") / "model"
    model("one").save(place)
    return place


def test_help_has_an_example():
    assert "Example:" in run("attribute", "--help").stdout


def test_text_json_and_tables_have_the_same_figures(folder, tmp_path):
    page, drawing = tmp_path / "page.html", tmp_path / "drawing.svg"
    said = run("attribute", folder, TEXT, "--html", page, "--svg", drawing)
    assert "completeness of integrated gradients" in said.stdout and "random" in said.stdout
    (shown,) = records_in(page.read_text())
    assert shown.json["charts"][0]["title"] == "Deletion"
    assert drawing.read_text().startswith("<svg")
    record = json.loads(run("attribute", folder, TEXT, "--json").stdout)
    table = run("attribute", folder, TEXT, "--format", "csv").stdout.split("\n\n")[0]
    rows = list(csv.DictReader(io.StringIO(table.split("\n", 1)[1])))
    assert [row["word"] for row in rows] == record["words"]
    figures = [float(row["integrated"]) for row in rows]
    assert figures == pytest.approx(record["weights"]["integrated"][0], abs=1e-6)


def test_two_texts_are_separated_by_a_tab(folder):
    said = run("attribute", folder, "the old\tcat came", "--method", "gradient", "--json")
    assert json.loads(said.stdout)["words"] == ["the", "old", "cat", "came"]


def test_parts_are_switched_off(folder, tmp_path):
    parts = ("--without", "head 1.0", "--without", "word cat")
    lines = run("attribute", folder, TEXT, *parts, "--html", tmp_path / "page.html").stdout
    rows = [line.split() for line in lines.splitlines()]
    assert rows[0] == ["target", "before", "after", "change"]
    assert {row[0] for row in rows[1:4]} == {"bad", "fair", "good"}
    assert lines.splitlines()[-1] == "without encoder head 1.0, word 2 (cat)"
    assert "encoder head 1.0" in (tmp_path / "page.html").read_text()
    record = json.loads(run("attribute", folder, TEXT, *parts, "--json").stdout)
    assert sum(record["after"]) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--without", "hed 1"), "'hed 1' is not \"head LAYER.HEAD\""),
        (("--without", "head 1.0", "--steps", 4), "--steps: cannot be used with --without"),
        (("--target", "nice"), "no label is called 'nice'"),
        (("--svg", "a.html"), "use --html"),
    ],
)
def test_bad_options_are_refused_in_one_line(folder, arguments, message):
    refused = run("attribute", folder, TEXT, *arguments, code=2)
    assert message in refused.stderr and refused.stderr.count("\n") == 1
    assert not refused.stdout
