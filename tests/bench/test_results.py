"""bench/RESULTS.md: a command, a machine and a day for each table; pages say no more."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RESULTS = (ROOT / "bench" / "RESULTS.md").read_text(encoding="utf-8")
SECTIONS = [part for part in re.split(r"^### ", RESULTS, flags=re.MULTILINE)[1:] if "|---" in part]
README = (ROOT / "README.md").read_text("utf-8")
SPEED = re.search(
    r"^Speed, .*", (ROOT / "docs" / "results.md").read_text("utf-8"), re.MULTILINE | re.DOTALL
)


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.splitlines()[0])
def test_a_section_has_its_command_and_its_day(section):
    prose = section.split("\n## ")[0]
    scripts = re.findall(r"python bench/(\w+\.py)", prose)
    same = "The same machine, versions and day" in prose
    assert scripts and all((ROOT / "bench" / script).is_file() for script in scripts)
    assert same or re.search(r"\d{4}-\d\d-\d\d", prose)


def test_no_figure_is_of_an_earlier_run():
    assert not re.search(r"†|earlier run|before the code|not recorded", RESULTS + SPEED[0])


def test_the_page_says_that_some_ratios_have_no_interval():
    claim, *rows = re.split(r"; |\n\| ", SPEED[0])
    assert any("(medians)" in row for row in rows) and "intervals where" in claim


@pytest.mark.parametrize(("text", "least"), [(SPEED[0], 10), (README, 5)], ids=["page", "README"])
def test_ratios_with_intervals_are_those_of_the_results(text, least):
    ratios = re.findall(r"\d+\.\d+ \(\d+\.\d+ to \d+\.\d+\)", " ".join(text.split()))
    assert len(ratios) > least
    assert [ratio for ratio in ratios if ratio not in RESULTS] == []


def test_the_readme_has_the_machine_and_the_day_of_its_ratios():
    claim = README.split("## Why not", 1)[1].split("## ", 1)[0]
    assert "H200" in claim and re.search(r"\d{4}-\d\d-\d\d", claim)
