"""Line charts: names, scales, and lines of any points."""

import re
import xml.etree.ElementTree as ElementTree
from itertools import pairwise

import pytest

from regard.views.line_chart import WIDTH, Chart, ChartLine, draw_charts


def test_powers_of_ten_lie_evenly():
    drawn = Chart(
        "t",
        "x",
        "y",
        [(0, "0"), (2, "2")],
        [ChartLine("a", [(0, 1), (1, 0.1), (2, 0.01)])],
        decades=True,
    ).svg()
    points = re.search(r'points="([^"]*)"', drawn)[1].split()
    heights = [float(point.split(",")[1]) for point in points]
    assert heights[1] - heights[0] == pytest.approx(heights[2] - heights[1], abs=0.2)
    assert ">0.01<" in drawn and ">1<" in drawn


def test_names_lie_neither_on_each_other_nor_on_the_ticks():
    lines = [ChartLine(f"line {number}", [(0.0, 50.0), (1.0, 0.1)]) for number in range(4)]
    root = ElementTree.fromstring(Chart("t", "x", "y", [(0.0, "a"), (1.0, "last")], lines).svg())
    texts = {one.text: one for one in root.iter("{http://www.w3.org/2000/svg}text")}
    tick = float(texts["last"].get("y"))
    heights = sorted(float(texts[line.name].get("y")) for line in lines)
    assert heights[-1] <= tick - 12
    assert all(lower - upper >= 15.9 for upper, lower in pairwise(heights))


@pytest.mark.parametrize("values", [[], [(1.0, 0.0)], [(1.0, 0.0), (2.0, 100.0)]])
def test_any_lines_can_be_drawn(values):
    drawn = Chart(
        "t", "x", "y", [(x, str(x)) for x, _ in values], [ChartLine("one", values)] * 3
    ).svg()
    ElementTree.fromstring(drawn)


def test_intervals_are_drawn_and_spanned():
    line = ChartLine("a", [(0, 0.5), (1, 0.6)], [(0.42, 0.58), (0.55, 0.65)])
    chart = Chart("t", "x", "y", [(0, "0"), (1, "1")], [line], fitted=True)
    heights = chart.heights()
    assert heights[0] <= 0.42 and heights[-1] >= 0.65
    root = ElementTree.fromstring(chart.svg())
    names = "{http://www.w3.org/2000/svg}line", "{http://www.w3.org/2000/svg}circle"
    bars = [one for one in root.iter(names[0]) if one.get("x1") == one.get("x2")]
    dots = [*root.iter(names[1])]
    assert [bar.get("x1") for bar in bars] == [dot.get("cx") for dot in dots]
    for bar, dot in zip(bars, dots, strict=True):
        assert float(bar.get("y1")) > float(dot.get("cy")) > float(bar.get("y2"))


def test_charts_lie_side_by_side_with_one_scale():
    charts = [
        Chart(name, "x", "y", [], [ChartLine(name, [(0, y)])], fitted=True, spanned=(0.1, 0.9))
        for name, y in (("a", 0.2), ("b", 0.8))
    ]
    assert charts[0].heights() == charts[1].heights()
    root = ElementTree.fromstring(draw_charts("both", charts, columns=2))
    moved = [one.get("transform") for one in root if one.tag.endswith("}g")]
    assert moved == ["translate(0 0)", f"translate({WIDTH} 0)"]
    assert root.get("width") == str(2 * WIDTH)
