"""The record of papers: every paper with its changes, sizes and results."""

import pytest

from regard.experiments.paper_records import lineage, section
from regard.models.papers import LINEAGE
from regard.views.pages import page, records_in
from regard.views.papers_view import PaperSection, papers_record


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
