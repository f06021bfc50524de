"""The language of the code: a public class name stands for one thing in the whole package."""

import ast
from collections import Counter
from pathlib import Path

from syntax import nodes

PACKAGE = Path(__file__).parents[2] / "src" / "regard"

# Names that still stand for two things. A name that no longer does is removed from this list.
USED_TWICE: set[str] = set()


def public_classes(source: str) -> list[str]:
    """Names of the classes in a file, wherever they are defined, without private ones."""
    classes = (node for node in nodes(source) if isinstance(node, ast.ClassDef))
    return [node.name for node in classes if not node.name.startswith("_")]


def used_twice(sources: list[str]) -> set[str]:
    counts = Counter(name for source in sources for name in public_classes(source))
    return {name for name, count in counts.items() if count > 1}


def test_public_class_names_are_unique():
    sources = [path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")]
    assert used_twice(sources) == USED_TWICE


def test_the_rule_would_notice():
    first = "class Row:\n    class Inner: ...\nclass _Private: ...\n"
    second = "class _Private: ...\ndef f():\n    class Inner: ...\n"
    assert used_twice([first, second]) == {"Inner"}
    assert used_twice([first]) == set()
