"""What an AttentionView prints in a terminal and draws as SVG."""

from io import StringIO
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from regard.core.errors import BadInput
from regard.inside.attention.attention_map import AttentionMap
from regard.inside.attention.attention_view import AttentionView
from regard.views.attention_text import heat_map, shade_cell
from regard.views.matrix_svg import CELL, draw_attention
from regard.views.palette import scale_colour

SVG = "{http://www.w3.org/2000/svg}"
LABELS = st.lists(st.text(max_size=30), min_size=1, max_size=40)


def translation():
    cross = AttentionMap(
        "cross", ("le", "chat"), ("the", "cat", "</s>"), [[[[1, 0, 0], [0.16, 0.64, 0.2]]]]
    )
    decoder = AttentionMap("decoder", ("le", "chat"), ("le", "chat"), np.zeros((2, 1, 2, 2)))
    return AttentionView("the cat", (cross, decoder), "le chat")


def random_map(queries, keys):
    weights = np.random.default_rng(0).random((1, 1, len(queries), len(keys)))
    return AttentionMap("encoder", tuple(queries), tuple(keys), weights)


def test_the_terminal_shows_words_on_both_sides_and_shades_by_the_root_of_the_weight():
    assert translation().text(60).splitlines() == [
        "the cat",
        "le chat",
        "cross, mean of all layers, mean of all heads",
        "",
        "         <",
        "     t c /",
        "     h a s",
        "     e t >",
        "  le ██····",
        "chat ▒▒██▒▒",
        "",
        "·· 0   ░░ 0.04   ▒▒ 0.16   ▓▓ 0.36   ██ 0.64",
    ]


def test_many_keys_are_split_into_panels():
    words = [f"w{number}" for number in range(30)]
    lines = AttentionView("long", (random_map(words, words),)).text(40).splitlines()
    assert max(map(len, lines)) <= 40
    assert sum(line.startswith(" w7 ") for line in lines) == 2  # a row of each panel
    body = [line for line in lines if line.startswith((" w", "w"))]
    cells = sum(line.count(each) for line in body for each in "·░▒▓█")
    assert cells == 2 * 30 * 30


@settings(deadline=None)
@given(LABELS, LABELS, st.text(max_size=200), st.integers(20, 120))
def test_no_line_exceeds_the_width_and_none_has_a_control_character(queries, keys, title, width):
    printed = AttentionView(title, (random_map(queries, keys),)).text(width)
    for line in printed.split("\n"):
        assert cell_len(line) <= width
        assert all(each.isprintable() or each in "\u200c\u200d" for each in line)


def test_rich_prints_colours_in_a_terminal_and_shades_in_a_pipe():
    def printed(**options):
        console = Console(file=StringIO(), width=60, legacy_windows=False, **options)
        console.print(translation())
        return console.file.getvalue()

    coloured = printed(force_terminal=True, color_system="truecolor")
    assert "48;2;255;143;107" in coloured  # the largest weight
    assert "█" not in coloured
    piped = printed(force_terminal=False)
    assert "\x1b" not in piped
    assert [line.rstrip() for line in piped.splitlines()] == translation().text(60).splitlines()


def test_it_prints_itself_to_the_width_of_the_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "70")
    assert str(translation()) == translation().text(70)


def test_a_map_layer_and_head_can_be_chosen_by_name():
    look = translation()
    assert look.map() is look.maps[0]
    assert look.map("decoder") is look.maps[1]
    with pytest.raises(BadInput, match="only: cross, decoder"):
        look.map("encoder")
    assert "decoder, layer 1, head 0" in look.choose("decoder", layer=1, head=0).text()
    assert "decoder, layer 1, mean of all heads" in look.choose("decoder", layer=1).svg()


def test_choices_are_kept_until_a_map_is_named():
    weights = np.random.default_rng(0).random((2, 3, 2, 2))
    maps = tuple(AttentionMap(name, ("a", "b"), ("a", "b"), weights) for name in ("x", "y"))
    look = AttentionView("a b", maps)
    at_once = look.choose(layer=1, head=2)
    for steps in ({"layer": 1}, {"head": 2}), ({"head": 2}, {"layer": 1}):
        first, second = steps
        chosen = look.choose(**first).choose(**second)
        assert (chosen.name, chosen.layer, chosen.head) == (None, 1, 2)
        assert chosen.text() == at_once.text()
    assert (at_once.choose().layer, at_once.choose().head) == (1, 2)
    assert at_once.choose(layer=0).text() == look.choose(layer=0, head=2).text()
    named = at_once.choose("y")
    assert (named.name, named.layer, named.head) == ("y", None, None)
    assert (named.choose(head=1).name, at_once.choose("x").layer) == ("y", None)
    with pytest.raises(BadInput, match="no layer 2"):
        at_once.choose(layer=2)


def test_a_map_without_weight_or_words_still_prints_and_draws():
    empty = AttentionView("", (AttentionMap("encoder", (), (), np.zeros((1, 1, 0, 0))),))
    for look in (empty, AttentionView("", (random_map(["a"], []),))):
        assert look.text()
        ElementTree.fromstring(look.svg())
    assert list(heat_map(["a"], ["b"], np.zeros((1, 1)), 40, shade_cell))


def test_the_drawing_has_a_square_for_every_weight_and_every_label():
    root = ElementTree.fromstring(translation().svg())
    assert root[0].tag == f"{SVG}title" and root[0].text == "the cat"
    assert "rows are queries" in root.find(f"{SVG}desc").text
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert texts[:2] == ["the cat", "cross, mean of all layers, mean of all heads"]
    assert {"le", "chat", "the", "cat", "</s>", "0", "1.00"} <= set(texts)
    side = str(CELL - 1)
    squares = [each for each in root.iter(f"{SVG}rect") if each.get("width") == side]
    fills = [each.get("fill") for each in squares]
    assert fills == [scale_colour("cividis", share) for share in (1.0, 0.16, 0.64, 0.2)]
    assert (squares[2].get("x"), squares[2].get("y")) == (str(CELL), str(CELL))


def test_the_drawing_is_one_file_of_plain_attributes():
    svg = translation().svg()
    assert svg.count("http") == 1  # the namespace
    assert not any(outside in svg for outside in ("href", "<style", " id=", "url("))


@settings(deadline=None)
@given(LABELS, LABELS, st.text())
def test_the_drawing_is_well_formed_for_any_text_and_nothing_leaves_the_paper(queries, keys, title):
    shown = random_map(queries, keys)
    svg = draw_attention(title, "caption", shown.queries, shown.keys, shown.select())
    svg.encode()
    root = ElementTree.fromstring(svg)
    width, height = float(root.get("width")), float(root.get("height"))
    frame = next(each for each in root.iter(f"{SVG}rect") if each.get("fill") == "none")
    assert float(frame.get("width")) < width and float(frame.get("height")) < height
