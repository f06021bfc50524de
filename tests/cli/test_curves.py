"""Curves of runs: as text, SVG and a page, of runs that are over and runs that go on."""

import json
import re
import xml.etree.ElementTree as ElementTree

import pytest

from regard.views.line_chart import MARKS, Chart, ChartLine, chart_text, round_ticks
from regard.views.pages import records_in
from regard.views.run_curves import Curves, smoothed
from verb import run

SVG = "{http://www.w3.org/2000/svg}"


def write_run(folder, losses, dev=(), tail=""):
    """The log of a run with a report per step, and an evaluation every two steps."""
    folder.mkdir(parents=True)
    lines = []
    for step, loss in enumerate(losses, start=1):
        figures = {"loss": loss, "nll": loss, "rate": 0.001 * step, "tokens": 9 * step}
        lines.append({"event": "train", "step": step, **figures, "seconds": 0.5 * step})
    for number, accuracy in enumerate(dev, start=1):
        figures = {"loss": 2.0 / number, "accuracy": accuracy, "seconds": 1.0 * number}
        lines.append({"event": "dev", "step": 2 * number, **figures})
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / "metrics.jsonl").write_text(text + tail)
    return folder


@pytest.fixture
def runs(tmp_path):
    first = write_run(tmp_path / "first", [4.0, 3.0, 2.0, 1.0], [50.0, 75.0])
    return first, write_run(tmp_path / "second", [5.0, 4.5, 4.0], [60.0])


def test_each_figure_has_a_chart_and_the_table_the_last_values(runs):
    said = run("curves", *runs).stdout
    titles = [line for line in said.splitlines() if line and line[0] != " "]
    assert titles[:4] == ["loss", "dev loss", "dev accuracy", "rate"]
    assert said.count("● first   ○ second") == 4
    *_, header, first, second = said.splitlines()
    assert header.split() == ["run", "step", "loss", *["dev", "loss", "dev", "accuracy", "rate"]]
    assert first.split() == ["first", "4", "1", "1", "75", "0.004"]
    assert second.split() == ["second", "3", "4", "2", "60", "0.003"]


def test_curves_lie_in_the_plot_over_one_axis(tmp_path):
    """The first report is left of the first round number of steps, the last right of the last."""
    losses = [3.0 - 0.001 * step for step in range(1050)]
    run_folder = write_run(tmp_path / "run", losses, [1.0] * 9)
    root = ElementTree.fromstring(Curves({"run": logged(run_folder)}).svg())
    lines = [each.get("points").split() for each in root.iter(f"{SVG}polyline")]
    places = [[float(point.split(",")[0]) for point in line] for line in lines]
    rule = next(root.iter(f"{SVG}line"))
    left, right = float(rule.get("x1")), float(rule.get("x2"))
    assert all(left - 0.1 <= x <= right + 0.1 for line in places for x in line)
    assert places[0][0] == pytest.approx(left, abs=1) and places[0][-1] == pytest.approx(right)
    ticks = [each for each in root.iter(f"{SVG}text") if each.get("text-anchor") == "middle"]
    named = ["0", "200", "400", "600", "800", "1,000"]
    assert [each.text for each in ticks if each.text] == named * len(lines)
    assert max(places[1]) == pytest.approx(left + (right - left) * 18 / 1050, abs=0.2)


def test_figures_can_be_chosen(runs):
    said = run("curves", runs[0], "--only", "nll", "--only", "dev accuracy").stdout
    assert said.splitlines()[-2].split() == ["run", "step", "nll", "dev", "accuracy"]
    wrong = run("curves", runs[0], "--only", "dev acuracy", code=2).stderr
    assert "no figure is called so; did you mean 'dev accuracy'?" in wrong


def test_pictures_have_a_line_in_its_colour_for_each_run(runs, tmp_path):
    files = ("--svg", tmp_path / "c.svg", "--html", tmp_path / "c.html")
    run("curves", *runs, *files)
    root = ElementTree.parse(tmp_path / "c.svg").getroot()
    lines = list(root.iter(f"{SVG}polyline"))
    assert len(lines) == 8 and len({line.get("stroke") for line in lines}) == 2
    names = [text.text for text in root.iter(f"{SVG}text")]
    assert names.count("first") == names.count("second") == 4
    (shown,) = records_in((tmp_path / "c.html").read_text())
    assert sum(len(chart["lines"]) for chart in shown.json["charts"]) == 8
    assert shown.json["table"]["rows"][0][0] == "first"
    assert "use --html" in run("curves", *runs, "--svg", tmp_path / "c.html", code=2).stderr


def test_a_run_that_goes_on_is_drawn_up_to_its_last_whole_line(tmp_path):
    going = write_run(tmp_path / "going", [2.0, 1.0], tail='{"event": "train", "st')
    assert run("curves", going).stdout.splitlines()[-1].split() == ["going", "2", "1", "0.002"]


def test_a_folder_of_runs_is_all_of_them_and_equal_names_are_paths(tmp_path):
    for name in ("a", "b"):
        write_run(tmp_path / name / "seed-1", [1.0, 0.5])
    write_run(tmp_path / "a" / "seed-2", [1.0, 0.5])
    rows = run("curves", tmp_path / "a").stdout.splitlines()[-2:]
    assert [row.split()[0] for row in rows] == ["seed-1", "seed-2"]
    rows = run("curves", tmp_path / "a" / "seed-1", tmp_path / "b").stdout.splitlines()[-2:]
    assert [row.split()[0] for row in rows] == [str(tmp_path / n / "seed-1") for n in "ab"]


def test_wrong_folders_and_logs_are_one_line(tmp_path):
    assert "has no metrics.jsonl" in run("curves", tmp_path, code=2).stderr
    empty = write_run(tmp_path / "empty", [])
    assert "no figures yet" in run("curves", empty, code=2).stderr
    damaged = write_run(tmp_path / "damaged", [1.0], tail="nonsense\n")
    assert "metrics.jsonl:2: damaged" in run("curves", damaged, code=2).stderr


def test_values_that_are_not_finite_are_left_out(tmp_path):
    folder = write_run(tmp_path / "run", [1.0, float("nan"), 3.0], [float("inf")])
    assert [y for _, y in Curves({"run": logged(folder)}).charts["loss"].lines[0].points] == [
        1.0,
        3.0,
    ]
    assert run("curves", folder).stdout.splitlines()[-1].split()[-2] == "–"


def logged(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_smoothing_is_an_average_without_bias(runs):
    points = [(1.0, 4.0), (2.0, 2.0), (3.0, 0.0)]
    smooth = smoothed(points, 0.5)
    assert [y for _, y in smooth] == pytest.approx([4.0, 8 / 3, 8 / 7])
    assert smoothed(points, 0.0) == points
    curves = Curves({"run": logged(runs[0])}, smooth=0.9)
    assert curves.charts["loss"].lines[0].points[-1][1] > 2
    assert curves.charts["dev accuracy"].lines[0].points[-1][1] == 75


def test_the_axis_may_be_time(runs):
    said = run("curves", runs[0], "--by", "seconds", "--only", "loss").stdout
    assert "2 seconds" in said


@pytest.mark.parametrize(
    ("low", "high"), [(0.0, 1.0), (1e-5, 3e-3), (-4.0, 7.5), (5.0, 5.0), (0.0, 0.0), (99.2, 99.9)]
)
def test_ticks_are_round_and_enclose_all_values(low, high):
    ticks = round_ticks(low, high)
    assert 2 <= len(ticks) <= 8 and ticks == sorted(set(ticks))
    assert ticks[0] <= low and high <= ticks[-1]


def test_a_line_as_text_goes_through_its_points():
    chart = Chart("t", "x", "", [], [ChartLine("one", [(0, 0), (10, 10)])], fitted=True)
    title, *plot, axis, ends = (line.plain for line in chart_text(chart, width=33, height=11))
    assert title == "t" and re.fullmatch(r" +└─{21}", axis) and ends.split() == ["0", "10", "x"]
    columns = [line.index(MARKS[0]) for line in plot]
    assert columns == sorted(columns, reverse=True) and len(plot) == 11
