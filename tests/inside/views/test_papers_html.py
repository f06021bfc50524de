"""The page of papers: every paper with its changes, sizes and results, and nothing is loaded."""

import re
from html import unescape

import pytest

from regard.cli.paper_records import lineage, section
from regard.inside.views.papers_html import PaperSection, papers_page
from regard.models.papers import LINEAGE


@pytest.fixture(scope="module")
def page():
    return papers_page([*map(section, lineage().values())])


def test_every_paper_has_a_section_that_the_tree_links_to(page):
    for paper in LINEAGE:
        assert page.count(f'<section id="{paper.key}">') == 1
        assert page.count(f'<a href="#{paper.key}">') == 1
        for facts in paper.sizes.values():
            assert f"<td>{paper.parameters(facts):,}</td>" in page


def test_sections_say_what_changed_and_what_was_reached(page):
    roberta = unescape(page.split('id="roberta"')[1].split("</section>")[0])
    assert "Changed from BERT" in roberta
    assert "<td>trunk.embed.vocab</td><td>30,522</td><td>50,265</td>" in roberta
    assert "<td>tokenizer</td><td>wordpiece</td><td>byte-bpe</td>" in roberta
    transformer = page.split('id="transformer"')[1].split("</section>")[0]
    assert "<td>28.4</td><td>arXiv:1706.03762, table 2</td>" in transformer
    assert "regard train multi30k-en-de --data" in transformer


def test_the_nested_lists_have_each_paper_below_the_one_it_comes_after(page):
    lists, found = [], {}
    tree = page.split("<nav")[1].split("</nav>")[0]
    for end, name in re.findall(r'(</li>)|<li><a class="paper" href="#[^"]*">(.*?)</a>', tree):
        if end:
            lists.pop()
        else:
            found[unescape(name)] = lists[-1] if lists else None
            lists.append(unescape(name))
    assert found == {paper.name: paper.after for paper in LINEAGE} and not lists


def test_nothing_is_loaded(page):
    assert not re.search(r"<(script|link|img|iframe)|\bsrc=|url\(|@import", page)
    assert "default-src 'none'" in page


def test_names_are_escaped():
    row = {"size": "<b>", "parameters": 3}
    page = papers_page([PaperSection("A&B", 2020, "<i>", "<u>", None, None, {"Sizes": [row]})])
    assert "A&amp;B" in page and "&lt;i&gt;" in page and "&lt;b&gt;" in page and "&lt;u&gt;" in page


def test_a_paper_stands_below_and_right_of_the_one_it_comes_after(page):
    at = {
        name: (int(x), int(y))
        for x, y, name in re.findall(r'<text x="(\d+)" y="(\d+)">([\w-]+)</text></a>', page)
    }
    assert len(at) == len(LINEAGE)
    for paper in LINEAGE:
        if paper.after is not None:
            assert at[paper.after][0] < at[paper.name][0]
            assert at[paper.after][1] < at[paper.name][1]
