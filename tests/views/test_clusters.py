"""Clusters in a text: marks in order, colours in a terminal, and a page without other sources."""

import re

import pytest

from regard.inference.resolver import ResolvedMention, ResolvedText
from regard.views.clusters import cluster_line, cluster_page

TEXT = "Ann's <dog>  ran.\nIt barked at her."


def mention(text, start):
    return ResolvedMention(text, start, start + len(text), 0, 0, text.split()[-1])


@pytest.fixture
def resolved():
    dog, it, ann, her = (
        mention("Ann's <dog>", 0),
        mention("It", 18),
        mention("Ann", 0),
        mention("her", 31),
    )
    return ResolvedText(TEXT, (), ((dog, it), (ann, her)))


def test_brackets_are_nested_and_numbered(resolved):
    assert resolved.line == "[[Ann]2's <dog>]1 ran. [It]1 barked at [her]2."
    assert ResolvedText("a  b", (), ()).line == "a b"


def test_parts_make_up_the_text_and_have_the_innermost_cluster(resolved):
    words = [part for part in resolved.parts if not part.is_mark]
    assert "".join(part.text for part in words) == TEXT
    assert [(part.text, part.cluster) for part in words][:2] == [("Ann", 2), ("'s <dog>", 1)]
    assert [part.text for part in resolved.parts if part.is_mark] == [
        *("[", "[", "]2", "]1", "[", "]1", "[", "]2")
    ]


def test_crossing_mentions_are_closed_where_they_end():
    crossing = ResolvedText("a b c", (), ((mention("a b", 0),), (mention("b c", 2),)))
    assert crossing.line == "[a [b]1 c]2"


def test_a_line_has_a_colour_for_each_cluster(resolved):
    line = cluster_line(resolved)
    assert line.plain == resolved.line
    styles = {str(span.style): line.plain[span.start : span.end] for span in line.spans}
    assert styles.keys() >= {"bright_green", "bright_yellow"}


def test_a_page_escapes_texts_and_lists_clusters(resolved):
    page = cluster_page("Clusters <x>", [resolved, ResolvedText("alone", (), ())])
    assert "Clusters &lt;x&gt;" in page and "&lt;dog&gt;" in page and "<dog>" not in page
    assert len(re.findall("<li ", page)) == 2 and page.count("<section>") == 2
    assert 'title="head word: her"' in page
    assert "src=" not in page and "<script" not in page
