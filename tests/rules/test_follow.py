"""Rules of the steps of computations: what they may import, and that no class is forgotten."""

import ast
from pathlib import Path

import pytest

from regard.inside.follow.kinds import SETTINGS, STEPS
from regard.models.papers import KINDS
from syntax import nodes

FOLLOW = Path(__file__).parents[2] / "src" / "regard" / "inside" / "follow"
# Classes of facts whose models cannot be followed yet; they are refused by name.
NOT_YET = {
    *("AttentionFlow", "CoreferenceHead", "Features", "NormedLabelHead"),
    *("SelfAttentiveFlow", "TextPairStack", "TextsPool"),
}


def imports(path: Path) -> set[str]:
    """Names of the modules that a file imports."""
    found = set()
    for node in nodes(path.read_text(encoding="utf-8")):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
    return found


@pytest.mark.parametrize("path", sorted(FOLLOW.glob("rules/[!_]*.py")), ids=lambda path: path.stem)
def test_rules_import_numpy_and_math_only(path):
    assert imports(path) <= {"numpy", "math"}


def test_kinds_import_no_torch_and_papers_only_for_types():
    for path in FOLLOW.glob("kinds/*.py"):
        assert not {name for name in imports(path) if name.split(".")[0] == "torch"}, path
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ImportFrom):
                assert not (node.module or "").startswith("regard.models.papers"), path


def test_each_class_of_facts_has_steps():
    known = {*STEPS} | SETTINGS | NOT_YET
    assert {*KINDS} <= known, "write the steps of a new class in inside/follow/kinds"
    assert not NOT_YET & ({*STEPS} | SETTINGS)


def test_steps_are_of_classes_that_exist():
    assert {*STEPS} <= {*KINDS}
    assert all(callable(STEPS[name]) for name in STEPS)
