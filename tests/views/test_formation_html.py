"""The page of heads while they form, and what it is drawn from."""

import json
import re

import numpy as np
import pytest

from regard import BadInput
from regard.inside.heads.head_formation import Formation
from regard.views.pages import records_in
from verb import run

SCORES = [(0.02, 0.03), (0.02, 0.1), (0.01, 0.6), (0.04, 0.3), (0.03, 0.8), (0.02, 0.9)]


def record(step: int, scores=(0.02, 0.03), **more) -> dict:
    heads = [
        {"site": "decoder", "layer": n, "head": 0, "roles": [], "induction": x, "entropy": 2.0}
        for n, x in enumerate(scores)
    ]
    loss = 4 - (step if isinstance(step, int) else 0) / 100
    return {"step": step, "loss": loss, "seconds": 0.5, "heads": heads, **more}


BARE = {"site": "decoder", "layer": 0, "head": 0, "roles": []}
RECORDS = [record(20 * number, scores) for number, scores in enumerate(SCORES)]


@pytest.fixture(scope="module")
def formed() -> Formation:
    return Formation.of_records("a <run>", RECORDS, "heads.jsonl")


def test_a_head_appears_when_its_score_stays_above_half_of_its_last_value(formed):
    (head,) = formed.appearances("induction")
    assert (head.head.place, head.value) == (("decoder", 1, 0), 0.9)
    assert head.step == 80  # at 40 it was above, at 60 below
    assert [each.step for each in formed.appearances("induction", least=0.01)] == [80, 0]
    assert formed.appearances("entropy", least=3.0) == []


def test_the_record_has_the_highest_head_of_each_step(formed):
    shown = formed.to_json()
    assert shown["steps"] == [0, 20, 40, 60, 80, 100]
    assert shown["highest"]["induction"] == [pair[1] for pair in SCORES]
    assert [head["step"] for head in shown["appeared"]] == [80]
    assert formed.caption == "2 heads, 6 reports up to step 100, which took 3.0 seconds"
    assert formed.figure_names == ["entropy", "induction"]


@pytest.mark.parametrize(
    ("records", "message"),
    [
        ([], "has no report yet"),
        ([record(0, ())], "has no report yet"),
        ([{"step": 0}], "heads.jsonl:1: not a report"),
        ([record(0), record(1, (0.1,))], "heads.jsonl:2: has other heads"),
        ([record(0, ("x", 0.1))], "heads.jsonl:1: not a report"),
        ([record("x")], "heads.jsonl:1: not a report"),
        ([record(0, (None, None), heads=[BARE])], "no figures that are known here"),
    ],
)
def test_wrong_lines_are_named(records, message):
    with pytest.raises(BadInput, match=message):
        Formation.of_records("run", records, "heads.jsonl")


def test_losses_that_are_not_finite_are_null():
    formed = Formation.of_records("run", [record(0), record(20, loss=float("nan"))], "heads.jsonl")
    assert formed.to_json()["losses"] == [4.0, None]
    assert "NaN" not in formed.html()


def test_the_page_has_the_figures_of_every_step(formed):
    (shown,) = records_in(formed.html("entropy"))
    assert shown.json["first"] == "entropy" and shown.json["steps"] == [0, 20, 40, 60, 80, 100]
    induction = shown.json["figures"]["induction"]
    np.testing.assert_allclose(shown.array(induction["values"]), SCORES, rtol=1e-6)
    assert shown.array(induction["exists"]).all() and induction["most"] == 1
    assert shown.json["places"] == [["decoder", 0, 0], ["decoder", 1, 0]]
    drawing = shown.array(shown.json["drawing"]).tobytes().decode()
    assert re.findall('data-cell="(.*?)"', drawing) == ["decoder-0-0", "decoder-1-0"]


def test_the_page_has_no_resources_and_no_markup_of_the_run(formed):
    page = formed.html()
    assert "a &lt;run&gt;" in page and "<run>" not in page
    assert not re.search(r"(src|href)=", page.split("<script", 1)[0])


def test_the_verb(tmp_path):
    folder = tmp_path / "run" / "watch"
    folder.mkdir(parents=True)
    lines = "".join(json.dumps(each) + "\n" for each in RECORDS)
    (folder / "heads.jsonl").write_text(lines + '{"step": 12')  # still being written
    html, svg = tmp_path / "f.html", tmp_path / "f.svg"
    done = run("formation", tmp_path / "run", "--html", html, "--svg", svg)
    assert "layer 1, head 0: induction 0.90, appeared at step 80" in done.stdout
    assert records_in(html.read_text())[0].kind == "formation" and svg.read_text().startswith(
        "<svg"
    )
    table = json.loads(
        run("formation", tmp_path / "run", "--figure", "entropy", "--json").stdout.splitlines()[0]
    )
    assert table["entropy"] == 2.0 and table["step"] == 0
    wrong = run("formation", tmp_path / "run", "--figure", "entropi", code=2)
    assert "did you mean 'entropy'" in wrong.stderr
    assert "has no reports on heads" in run("formation", tmp_path, code=2).stderr
