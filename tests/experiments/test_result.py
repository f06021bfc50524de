"""Typed tables in every format, and the verbs that print them."""

import csv
import json
import re
from io import StringIO

import pytest

from regard.cli.formats import TableOptions
from regard.cli.io.console import print_tables
from regard.core.errors import BadInput
from regard.experiments.result import (
    LINES,
    OutputTable,
    csv_text,
    number_column,
    score_table,
    text_column,
)
from regard.metrics.intervals import Interval
from regard.metrics.translation import MetricScore
from verb import run

TABLE = OutputTable(
    [text_column("name"), number_column("score", ".2f", missing="–"), number_column("n", ",")],
    [["a_b & c|d", 12.345678, 12_345], ['50% "x"', None, 1]],
    "A <title>",
    ["a note"],
)
EXPECTED = {
    "text": [
        "A <title>",
        "name       score       n",
        "a_b & c|d  12.35  12,345",
        '50% "x"        –       1',
        "a note",
    ],
    "markdown": [
        r"**A \<title>**",
        "",
        "| name | score | n |",
        "| --- | ---: | ---: |",
        r"| a_b & c\|d | 12.35 | 12,345 |",
        '| 50% "x" | – | 1 |',
        "",
        "a note",
    ],
    "latex": [
        r"% needs \usepackage{booktabs}",
        "% A <title>",
        r"\begin{tabular}{lrr}",
        r"\toprule",
        r"name & score & n \\",
        r"\midrule",
        r"a\_b \& c\textbar{}d & 12.35 & 12,345 \\",
        r'50\% "x" & – & 1 \\',
        r"\bottomrule",
        r"\end{tabular}",
        "% a note",
    ],
    "csv": ["A <title>", "name,score,n", "a_b & c|d,12.345678,12345", '"50% ""x""",,1'],
    "json": [
        '{"name": "a_b & c|d", "score": 12.345678, "n": 12345}',
        '{"name": "50% \\"x\\"", "score": null, "n": 1}',
    ],
}
RECORDS = [("BLEU", 30.5, None), ("chrF", 55.25, Interval(50.0, 60.0))]
SCORES = [MetricScore(name, value, "nrefs:1", around) for name, value, around in RECORDS]


def test_every_format_is_tested():
    assert set(EXPECTED) == set(LINES)


@pytest.mark.parametrize("form", EXPECTED)
def test_a_table_in_every_format(form, capsys):
    print_tables([TABLE], form)
    assert capsys.readouterr().out.splitlines() == EXPECTED[form]


@pytest.mark.parametrize(("form", "apart"), [("markdown", [""]), ("csv", [""]), ("json", [])])
def test_an_empty_line_stands_between_two_tables(form, apart, capsys):
    print_tables([TABLE, TABLE], form)
    assert capsys.readouterr().out.splitlines() == [*EXPECTED[form], *apart, *EXPECTED[form]]


def test_csv_is_read_back_unrounded():
    header, *rows = csv.reader(StringIO(csv_text(TABLE)))
    assert header == TABLE.names
    assert rows == [["a_b & c|d", "12.345678", "12345"], ['50% "x"', "", "1"]]


def test_json_is_another_name_of_a_format():
    assert TableOptions("text", True).format == TableOptions("json", True).format == "json"
    assert TableOptions("csv").format == "csv"
    with pytest.raises(BadInput, match="--json: cannot be used with --format csv"):
        _ = TableOptions("csv", True).format


def test_scores_have_bounds_only_if_one_has_an_interval():
    assert score_table({"": SCORES[:1]}).names == ["metric", "score", "signature"]
    table = score_table({"test": SCORES}, "set")
    assert table.names == ["set", "metric", "score", "low", "high", "signature"]
    assert table.rows[0] == ["test", "BLEU", 30.5, None, None, "nrefs:1"]
    assert table.rows[1] == ["test", "chrF", 55.25, 50.0, 60.0, "nrefs:1"]


def records_of(*words: object) -> list[dict[str, str]]:
    return [*csv.DictReader(StringIO(run(*words, "--format", "csv").stdout))]


def test_papers_in_every_format():
    rows = records_of("papers")
    (bert,) = [row for row in rows if (row["paper"], row["size"]) == ("BERT", "base")]
    assert bert["parameters"] == "109482240"
    records = [json.loads(line) for line in run("papers", "--json").stdout.splitlines()]
    assert run("papers", "--format", "json").stdout == run("papers", "--json").stdout
    assert len(records) == len(rows)
    assert "| BERT | 2018 |" in run("papers", "--format", "markdown").stdout
    assert r"BERT & 2018 &" in run("papers", "BERT", "--format", "latex").stdout
    refused = run("papers", "--html", "x.html", "--format", "csv", code=2)
    assert "--html: writes all papers" in refused.stderr


def test_recipes_are_one_table_in_csv():
    rows = {row["recipe"]: row for row in records_of("recipes")}
    assert rows["tour"]["expected"].startswith("BLEU ")
    names = re.findall(r"^\| ([\w-]+) \|", run("recipes", "--format", "markdown").stdout, re.M)
    assert sorted({*names} - {"recipe", "---"}) == sorted(rows)
    refused = run("recipes", "tour", "--format", "csv", code=2)
    assert refused.stderr == ("regard: --format csv: a recipe is no table; use it without NAME\n")


@pytest.fixture
def texts(tmp_path):
    lines = {
        "ref": ["a small cat sat on the mat", "the dog barks at night"],
        "one": ["a small cat sat on a mat", "the dog sleeps at night"],
        "two": ["the small cat sat on the mat", "the dog barks at the night"],
    }
    for name, content in lines.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in content))
    return [tmp_path / name for name in ("one", "two", "ref")]


def test_scores_of_bleu(texts):
    one, two, reference = texts
    (row,) = records_of("bleu", one, reference)
    (told,) = json.loads(run("bleu", one, reference, "--json").stdout)["scores"]
    assert float(row["score"]) == told["value"] and row["signature"] == told["signature"]
    rows = records_of("bleu", one, two, "--refs", reference, "--chrf")
    assert [row["metric"] for row in rows] == ["BLEU", "chrF2"] * 2
    assert rows[0]["difference"] == rows[0]["p"] == "" and rows[2]["p"] == ""
    difference = float(rows[2]["score"]) - float(rows[0]["score"])
    assert float(rows[2]["difference"]) == pytest.approx(difference)
    tables = run("bleu", one, reference, "--explain", "--format", "markdown").stdout
    assert "| n-gram | count |" in tables and "| small cat | 1 |" in tables


def test_bad_formats_name_the_remedy(texts):
    refused = run("bleu", *texts[1:], "--json", "--format", "csv", code=2)
    assert refused.stderr == (
        "regard: --json: cannot be used with --format csv; choose one of them\n"
    )
