"""A beam search in the terminal, as a drawing, as a page: complete, offline, safe from any text."""

import re
from html.parser import HTMLParser
from io import StringIO
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from regard.generation import Beam, Constraints
from regard.inside.trees.beam_svg import draw_columns
from regard.inside.trees.recording_beam import RecordingBeam
from regard.inside.trees.tree_nodes import PRUNED
from regard.inside.trees.tree_text import tree_lines
from regard.views.markup import escape_controls
from regard.views.pages import records_in

from ...generation.toy import BOS, EOS, Toy, small_tree

SVG = "{http://www.w3.org/2000/svg}"
DOCS = Path(__file__).parents[3] / "docs"
HOSTILE = ("</svg><script>alert(1)</script>", '" onload="x', "&amp;]]>", "$title", "\x1b[31m\ud800")
VOID = {"meta", "br", "input", "link", "img", "hr"}


NAMES = ("⟨end⟩", "▁ein", "▁Buch", "er")


def draw_tree(tree) -> str:
    return tree.svg()


def toy_tree(beam=None, toy=None, longest=5, names=NAMES, title="a book"):
    recording = RecordingBeam(beam or Beam(3))
    recording((toy or Toy(11)).open([0]), Constraints(BOS, EOS, longest))

    def decode(tokens):
        return "".join(names[token] for token in tokens)

    return recording.tree(title, names.__getitem__, decode)


def printed(tree, width=80, pruned=2):
    return [line.plain for line in tree_lines(tree, width, pruned)]


class Outline(HTMLParser):
    """Checks that elements are balanced; keeps tags, attributes and text."""

    def __init__(self, html):
        super().__init__()
        self.open, self.attributes, self.tags, self.text = [], [], [], []
        self.feed(html)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += [(tag, *each) for each in attributes]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.attributes += [(tag, *each) for each in attributes]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def test_the_terminal_shows_every_step_what_was_found_and_what_else_might_have_been():
    shown = printed(toy_tree(Beam(2, length="none"), small_tree(), 3, ("⟨end⟩", "a", "b")), 72, 1)
    assert shown == [
        "a book",
        "b",
        "beam of 2, score = log p; 2 steps, 9 candidates, 5 of them pruned, 2",
        "hypotheses",
        "┃ winner  │ kept  ■ finished  □ unfinished  × pruned  ‹2 continues rank",
        "2 of the previous step",
        "",
        "step 1            token    log p    score",
        "  1 │ a     ‹1    -0.69    -0.69   -0.693",
        "  2 ┃ b     ‹1    -0.92    -0.92   -0.916",
        "  3 × ⟨end⟩ ‹1    -2.30    -2.30   -2.303  outranked",
        "",
        "step 2            token    log p    score",
        "  1 ■ ⟨end⟩ ‹2    -0.11    -1.02   -1.022  finished",
        "  2 ■ ⟨end⟩ ‹1    -0.92    -1.61   -1.609  finished",
        "  3 × a     ‹1    -1.20    -1.90   -1.897  enough finished",
        "    × and 3 more pruned",
        "",
        "hypothesis    score    log p   n",
        "         1   -1.022    -1.02   2  b",
        "         2   -1.609    -1.61   2  a",
        "",
        "the best of these hypotheses under other length penalties",
        "         1   -1.022  log p",
        "         1   -0.511  log p / n",
        "         1   -0.991  log p / ((5+n)/6)^0.2",
        "         1   -0.931  log p / ((5+n)/6)^0.6",
        "         1   -0.876  log p / ((5+n)/6)^1",
        "         1   -0.889  log p / n^0.2",
        "         1   -0.674  log p / n^0.6",
        "         1   -0.387  log p / n^1.4",
    ]


def test_a_rule_that_chooses_otherwise_says_what():
    trees = (toy_tree(Beam(4, length="none", finished=8), Toy(seed), 7) for seed in range(50))
    tree = next(tree for tree in trees if any(choice.hypothesis for choice in tree.choices))
    other = next(choice for choice in tree.choices if choice.hypothesis)
    text = tree.hypotheses[other.hypothesis].text
    assert any(line.endswith(f"{other.formula}  {text}".rstrip()) for line in printed(tree, 120))
    choices = tree.view_record().json["choices"]
    assert choices[tree.choices.index(other)]["hypothesis"] == other.hypothesis


@settings(max_examples=30)
@given(st.lists(st.text(max_size=30), min_size=4, max_size=4), st.text(), st.integers(40, 120))
def test_no_line_exceeds_the_width_and_none_has_a_control_character(names, title, width):
    for line in printed(toy_tree(names=names, title=title), width):
        assert cell_len(line) <= width
        assert all(each.isprintable() or each in "\u200c\u200d" for each in line)


def test_in_a_terminal_the_winner_has_a_colour():
    console = Console(file=StringIO(), width=80, force_terminal=True, color_system="standard")
    for line in tree_lines(toy_tree()):
        console.print(line)
    assert "\x1b[1;31m" in console.file.getvalue()


def boxes(root):
    return [group for group in root.iter(f"{SVG}g") if group.find(f"{SVG}rect") is not None]


def test_the_drawing_has_a_box_for_what_was_not_pruned_and_a_line_to_each():
    tree = toy_tree(toy=Toy(5), longest=6)
    root = ElementTree.fromstring(draw_tree(tree))
    stay = [node for node in tree.nodes if node.fate not in PRUNED]
    assert len(boxes(root)) == len(stay)
    assert len(list(root.iter(f"{SVG}path"))) == len(stay) - 1
    accent = [one for one in root.iter(f"{SVG}path") if one.get("stroke-width") == "2.4"]
    assert len(accent) == len(tree.winner) - 1
    words = [text.text for text in root.iter(f"{SVG}text")]
    assert {tree.title, tree.hypotheses[0].text, tree.summary} <= set(words)
    for node in tree.nodes:
        if node.fate in PRUNED and node.rank <= tree.beam.size + 1:
            assert any(f"{node.piece} {node.total:.2f}" in word for word in words if word)


def test_a_page_has_a_box_for_every_candidate_and_the_pruned_ones_below():
    tree = toy_tree(toy=Toy(5), longest=6)
    root = ElementTree.fromstring(draw_columns(tree))
    shown = {int(group.get("data-node")): group for group in boxes(root)}
    assert sorted(shown) == [*range(len(tree.nodes))]
    edges = [int(path.get("data-edge")) for path in root.iter(f"{SVG}path")]
    assert sorted(edges) == [*range(1, len(tree.nodes))]
    for step in range(1, tree.steps + 1):
        heights = {n: float(shown[n].find(f"{SVG}rect").get("y")) for n in tree.at(step)}
        fates = [tree.nodes[n].fate in PRUNED for n in sorted(heights, key=heights.__getitem__)]
        assert fates == sorted(fates)
    for number, group in shown.items():
        drawn = [text.text for text in group.iter(f"{SVG}text")]
        assert drawn == [tree.nodes[number].piece, tree.label(number) if number else None]


@pytest.mark.parametrize("draw", [draw_tree, draw_columns])
def test_boxes_do_not_overlap_and_nothing_leaves_the_paper(draw):
    root = ElementTree.fromstring(draw(toy_tree(Beam(4, finished=9), longest=8)))
    width, height = float(root.get("width")), float(root.get("height"))
    rects = [group.find(f"{SVG}rect") for group in boxes(root)]
    sides = ("x", "y", "width", "height")
    corners = [tuple(float(one.get(side)) for side in sides) for one in rects]
    for x, y, wide, high in corners:
        assert min(x, y) >= 0 and x + wide <= width and y + high <= height
    for i, (x, y, wide, high) in enumerate(corners):
        for x2, y2, wide2, high2 in corners[:i]:
            apart = x + wide < x2 or x2 + wide2 < x or y + high < y2 or y2 + high2 < y
            assert apart


def test_a_drawing_is_one_file_of_plain_attributes():
    svg = draw_tree(toy_tree())
    assert svg.count("http") == 1  # the namespace
    assert not any(outside in svg for outside in ("href", "style", " id=", "url(", "var(", "data-"))


@settings(max_examples=30)
@given(st.lists(st.text(), min_size=4, max_size=4), st.text())
def test_drawing_and_page_are_well_formed_for_any_text(names, title):
    tree = toy_tree(names=names, title=title)
    draw_tree(tree).encode()
    ElementTree.fromstring(draw_tree(tree))
    html = tree.html()
    html.encode()
    Outline(html)


def test_hostile_text_stays_text():
    tree = toy_tree(names=HOSTILE[:4], title=HOSTILE[0] + HOSTILE[4])
    outline = Outline(tree.html())
    assert outline.tags.count("script") == 2  # the record, and what draws it
    assert not [one for one in outline.attributes if one[1].startswith("on")]
    assert HOSTILE[0] in "".join(outline.text)


def test_the_page_fetches_nothing_and_writes_only_text():
    html = toy_tree().html()
    assert set(re.findall(r"https?://[^\"'\s]*", html)) == {"http://www.w3.org/2000/svg"}
    assert not [each for each in Outline(html).attributes if each[1] in ("src", "href", "action")]
    assert not re.search(r"@import|url\(|fetch\(|XMLHttpRequest|import\(|innerHTML|eval\(", html)
    assert "default-src 'none'" in html
    assert "prefers-color-scheme: dark" in html


def test_the_page_has_every_candidate_and_why():
    tree = toy_tree(Beam(3, finished=9), longest=6)
    (record,) = records_in(tree.html())
    assert record.kind == "beam_tree" and record.json["winner"] == list(tree.winner)
    for number, (shown, node) in enumerate(zip(record.json["nodes"], tree.nodes, strict=True)):
        assert [shown["parent"], shown["rank"], shown["fate"]] == [
            node.parent,
            node.rank,
            node.fate,
        ]
        assert shown["why"] == tree.why(number) and shown["figures"] == tree.figures(number)
        assert shown["text"] == escape_controls(tree.prefix_text(number))


def test_a_wide_and_long_search_makes_a_page_of_moderate_size():
    tree = toy_tree(Beam(5, finished=99, early=False), Toy(3), longest=30)
    assert tree.steps == 30
    assert len(tree.html()) < 200_000


def test_the_picture_in_the_docs_is_what_is_drawn():
    beam, names = Beam(2, length="none"), ("⟨end⟩", "a", "b")
    tree = toy_tree(beam, small_tree(), 3, names, title="a small tree, searched by a beam of 2")
    assert (DOCS / "beam.svg").read_text(encoding="utf-8") == draw_tree(tree), "write it anew"
