"""Line charts: names, scales, and lines of any points."""

import re
import xml.etree.ElementTree as ElementTree
from itertools import pairwise

import pytest

from regard.inside.views.line_chart import Chart, ChartLine


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
