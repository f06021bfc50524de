"""The generated pages are what the code says now."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def generated(tmp_path_factory):
    folder = tmp_path_factory.mktemp("docs")
    script = (DOCS / "reference.py").read_text(encoding="utf-8")
    (folder / "reference.py").write_text(script, encoding="utf-8")
    subprocess.run([sys.executable, folder / "reference.py"], check=True, timeout=120)
    return folder


@pytest.mark.parametrize("page", ["recipes.md", "api.md"])
def test_is_up_to_date(generated, page):
    text = (generated / page).read_text(encoding="utf-8")
    assert (DOCS / page).read_text(encoding="utf-8") == text, "run python docs/reference.py"


def test_every_key_of_recipes_is_described(generated):
    rows = re.findall(r"^\| `.*", (generated / "recipes.md").read_text(encoding="utf-8"), re.M)
    assert len(rows) > 90
    assert [row for row in rows if row.endswith("|  |")] == []


def test_every_exported_name_is_described(generated):
    text = (generated / "api.md").read_text(encoding="utf-8")
    empty = re.findall(r"^#+ (.*)\n(?:\n|```python\n.*\n```\n)*(?=#|\Z)", text, re.M)
    assert empty == []
