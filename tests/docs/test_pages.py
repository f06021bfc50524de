"""Pages of the documentation: each is listed, every link leads somewhere, every paper is listed."""

import re
from pathlib import Path

import pytest

from regard import LINEAGE

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [*ROOT.glob("*.md"), *sorted(DOCS.glob("*.md")), ROOT / "bench" / "RESULTS.md"]


def links_of(page: Path) -> list[tuple[str, str]]:
    """Files and anchors that a page links, without other sites."""
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    links = re.findall(r"\]\(([^)\s]+)\)", text)
    own = [link.partition("#") for link in links if "://" not in link]
    return [(path, anchor) for path, _, anchor in own]


def anchors_of(page: Path) -> set[str]:
    """Anchors of the headings of a page, as GitHub names them."""
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#+ (.*)", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page):
    for path, anchor in links_of(page):
        target = page.parent / path if path else page
        assert target.exists(), f"{path}#{anchor}"
        assert not anchor or anchor in anchors_of(target), f"{path}#{anchor}"


def test_every_page_is_listed():
    listed = {path for path, _ in links_of(DOCS / "README.md")}
    assert {page.name for page in DOCS.glob("*.md")} - listed == {"README.md"}


def test_every_picture_is_shown():
    shown = {path.rpartition("/")[2] for page in PAGES for path, _ in links_of(page)}
    assert {path.name for path in DOCS.glob("*.svg")} - shown == set()


def test_every_paper_is_listed():
    rows = re.findall(r"^\| \d{4} \| ([\w-]+)", (DOCS / "models.md").read_text("utf-8"), re.M)
    assert sorted(rows) == sorted(paper.name for paper in LINEAGE)
