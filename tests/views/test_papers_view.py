"""The record of papers: every paper with its changes, sizes and results."""

from xml.etree import ElementTree

import pytest

from regard.experiments.paper_records import lineage, section
from regard.models.papers import LINEAGE
from regard.views.pages import page, records_in
from regard.views.palette import LIGHT
from regard.views.papers_view import PaperSection, draw_lineage, lineage_order, papers_record


@pytest.fixture(scope="module")
def papers():
    record = papers_record([*map(section, lineage().values())])
    (read,) = records_in(page(record))
    return {paper["name"]: paper for paper in read.json["papers"]}


def test_every_paper_has_its_sizes_and_the_paper_that_it_builds_on(papers):
    for paper in LINEAGE:
        shown = papers[paper.name]
        assert (shown["year"], shown["after"]) == (paper.year, paper.after)
        sizes = {row["parameters"] for row in shown["tables"]["Sizes"]}
        assert {f"{paper.parameters(facts):,}" for facts in paper.sizes.values()} <= sizes


def test_tables_say_what_changed_and_what_was_reached(papers):
    changed = [[*row.values()] for row in papers["RoBERTa"]["tables"]["Changed from BERT"]]
    assert ["trunk.embed.vocab", "30,522", "50,265"] in changed
    assert ["tokenizer", "wordpiece", "byte-bpe"] in changed
    (results,) = (
        rows for name, rows in papers["Transformer"]["tables"].items() if name.startswith("Results")
    )
    cells = [[*row.values()] for row in results]
    assert any(row[-2:] == ["28.4", "arXiv:1706.03762, table 2"] for row in cells)
    assert any("regard train multi30k-en-de --data" in row[-1] for row in cells)


def test_markup_is_not_in_the_page():
    row = {"size": "<b>", "parameters": 3}
    made = papers_record([PaperSection("A&B", 2020, "<i>", "<u>", None, None, {"Sizes": [row]})])
    assert not any(each in page(made) for each in ("<b>", "<i>", "<u>"))


def paper(name, year, after=None, rows=()):
    tables = {f"Changed from {after}": rows} if rows else {}
    return PaperSection(name, year, "a title", "a journal", None, after, tables)


def test_a_sentence_says_what_a_paper_changed_added_and_left_out():
    pairs = [("trunk.stack.depth", 12, 24), ("trunk.embed.eps", 1e-12, 1e-5), ("mask", "", "span")]
    pairs += [("pool", True, None), ("cross", False, None)]
    told = paper("B", 2020, "A", [{"fact": f, "A": old, "B": new} for f, old, new in pairs]).changes
    assert told == (
        "Compared with A, B changes depth (12 → 24), eps (1e-12 → 1e-05); "
        "adds mask (span); drops pool (yes)."
    )
    many = [{"fact": f"f{n}", "A": 0, "B": n + 1} for n in range(10)]
    assert "f7 (0 → 8) and 2 more." in paper("B", 2020, "A", many).changes
    assert paper("A", 2019).changes == ""
    alike = [{"fact": "cross", "A": False, "B": None}]
    assert paper("B", 2020, "A", alike).changes == "Compared with A, B differs in details only."


@pytest.mark.parametrize("narrow", [False, True])
def test_the_lineage_is_drawn_below_and_right_of_what_came_before(narrow):
    sections = [paper("A", 2014), paper("C", 2014), paper("B<", 2017, "A"), paper("D", 2017, "B<")]
    ordered = lineage_order(sections)
    assert [each.name for each in ordered] == ["A", "B<", "D", "C"]
    root = ElementTree.fromstring(draw_lineage(ordered, LIGHT, narrow=narrow))
    texts = root.iterfind(".//*[@data-paper]")
    at = {one.text: (float(one.get("x")), float(one.get("y"))) for one in texts}
    assert at["A"][0] == at["C"][0] < at["B<"][0] < at["D"][0]
    assert at["A"][1] < at["B<"][1] < at["D"][1] < at["C"][1]
    assert max(x for x, _ in at.values()) < float(root.get("width"))
