"""The language of the code.

A public class name stands for one thing in the whole package, and a variable is called by what it
is: ``logits``, ``request``, ``matches``, ``expected``.
"""

import ast
from collections import Counter
from pathlib import Path

from syntax import nodes

PACKAGE = Path(__file__).parents[2] / "src" / "regard"

# Names that still stand for two things. A name that no longer does is removed from this list.
USED_TWICE: set[str] = set()

# Names of variables that say how a value came about, not what it is.
VAGUE = {"said", "asked", "found", "wanted"}


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


def vague_names(source: str) -> list[str]:
    """Variables and arguments with names that say little."""
    names = []
    for node in nodes(source):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name) if name in VAGUE:
                names.append((node.lineno, name))
    return [f"{name} in line {line}" for line, name in sorted(names)]


def test_variables_are_called_by_what_they_are():
    files = {path: path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")}
    vague = {path.name: names for path, text in files.items() if (names := vague_names(text))}
    assert not vague


def test_the_rule_of_variables_would_notice():
    assert vague_names("def f(asked):\n    found = [x for said in y]\n    return wanted") == [
        "asked in line 1",
        "found in line 2",
        "said in line 2",
    ]
