"""The drawing of a confusion matrix: every count, at its place, for two classes or a hundred."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from regard.metrics.classification import Confusion, confusion
from regard.views.matrix_svg import LARGEST, SMALLEST, draw_confusion

TITLES = re.compile(r"(.+) as (.+): ([\d,]+)")


def drawn(matrix, title="a test"):
    """The element; for each cell its tooltip, its column and its row."""
    root = ElementTree.fromstring(draw_confusion(title, matrix))
    tag = "{http://www.w3.org/2000/svg}"
    cells = {}
    for rect in root.iter(f"{tag}rect"):
        for said in rect.iter(f"{tag}title"):
            cells[TITLES.fullmatch(said.text).groups()] = float(rect.get("x")), float(rect.get("y"))
    return root, cells, [text.text for text in root.iter(f"{tag}text")]


@pytest.mark.parametrize(("size", "cell"), [(2, LARGEST), (10, LARGEST), (100, SMALLEST)])
def test_every_count_has_its_cell(size, cell):
    draw = np.random.default_rng(0)
    names = [f"class {number:03}" for number in range(size)]
    counts = np.where(draw.random((size, size)) < 0.2, 0, draw.integers(0, 2000, (size, size)))
    counts[0, 0] = 1
    counts[1, 1] = 2
    root, cells, texts = drawn(Confusion(names, counts.astype(np.float64)))
    assert cells == {
        (names[row], names[column], f"{counts[row, column]:,}"): (cell * column, cell * row)
        for row, column in np.argwhere(counts)
    }
    assert texts.count(names[0]) == texts.count(names[-1]) == 2
    assert float(root.get("width")) >= size * cell
    shares = [f"{100 * share:.0f}%" for share in np.diag(counts) / counts.sum(1)]
    assert [text for text in texts if text.endswith("%")] == shares
    listed = any("most frequent mistakes" in text for text in texts)
    assert listed == (cell == SMALLEST)  # where counts have no room


def test_names_of_classes_are_no_markup():
    golds = ["<b>", "<b>", "a\nb\x1b" * 40]
    _, cells, texts = drawn(confusion(golds, ["<b>", "c", "c"]), 'a "title" <i>')
    assert ("<b>", "c", "1") in cells and "<b>" in texts
    assert all(len(text) < 60 and "\x1b" not in text for text in texts)


def test_nothing_right_and_nothing_wrong():
    _, cells, texts = drawn(confusion(["a", "b"], ["b", "a"]))
    assert {*cells} == {("a", "b", "1"), ("b", "a", "1")} and texts.count("0%") == 2
    many = [f"{n}" for n in range(90)]
    _, _, texts = drawn(confusion(many, many))
    assert any("mistakes: none" in text for text in texts)
