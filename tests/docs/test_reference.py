"""The generated pages, and the table of papers, are what the code says now."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TABLES = ("src/regard/models/papers/table.json", "src/regard/experiments/findings/table.json")
FILES = ("docs/recipes.md", "docs/api.md", *TABLES)


@pytest.fixture(scope="module")
def generated(tmp_path_factory):
    folder = tmp_path_factory.mktemp("generated")
    # In a process of its own: what other tests have imported or replaced is not in the pages.
    subprocess.run([sys.executable, ROOT / "docs" / "reference.py", folder], check=True)
    return folder


@pytest.mark.parametrize("name", FILES)
def test_is_up_to_date(generated, name):
    text = (generated / name).read_text(encoding="utf-8")
    assert (ROOT / name).read_text(encoding="utf-8") == text, "run python docs/reference.py"


def test_every_key_of_recipes_is_described(generated):
    rows = re.findall(r"^\| `.*", (generated / "docs/recipes.md").read_text(encoding="utf-8"), re.M)
    assert len(rows) > 90
    assert [row for row in rows if row.endswith("|  |")] == []


def test_every_exported_name_is_described(generated):
    text = (generated / "docs/api.md").read_text(encoding="utf-8")
    empty = re.findall(r"^#+ (.*)\n(?:\n|```python\n.*\n```\n)*(?=#|\Z)", text, re.M)
    assert empty == []
