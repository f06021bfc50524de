"""Imports go down a floor, never up, and sideways only within a folder."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import regard
from syntax import nodes

PACKAGE = Path(__file__).parents[2] / "src" / "regard"
TOP = 7  # cli and its like, and the modules that stand beside the folders
FLOORS = {
    "ground": 0,
    **dict.fromkeys(["parts", "text", "images", "metrics", "weights"], 1),
    **dict.fromkeys(["models", "data"], 2),
    **dict.fromkeys(["objectives", "decoding", "search"], 3),
    "inference": 4,
    "tasks": 5,
    **dict.fromkeys(["training", "inside"], 6),
    **dict.fromkeys(["cli", "serving", "studio", "tour", "studies", "findings"], TOP),
}
MODULES = sorted(PACKAGE.rglob("*.py"))


def folder(module: str) -> str:
    """The folder of a dotted module of regard; "" for what stands beside the folders."""
    first = module.split(".")[1] if "." in module else ""
    return first if first in FLOORS else ""


def imported(source: str, module: str) -> Iterator[str]:
    """Dotted names of all that is imported, anywhere in the file."""
    for node in nodes(source):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level:
            raise AssertionError(f"{module} imports relatively, in line {node.lineno}")
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def too_high(source: str, module: str) -> list[str]:
    """What a module imports though it lies on no lower floor and in another folder."""
    here = folder(module)
    floor = FLOORS.get(here, TOP)
    names = [n for n in imported(source, module) if n == "regard" or n.startswith("regard.")]
    return [
        name
        for name in names
        if folder(name) != here
        and FLOORS.get(folder(name), TOP) >= floor
        and not floor == FLOORS.get(folder(name), TOP) == TOP
    ]


def dotted(path: Path) -> str:
    return ".".join(("regard", *path.relative_to(PACKAGE).with_suffix("").parts))


def test_imports_go_down():
    found = {
        dotted(path): too_high(path.read_text(encoding="utf-8"), dotted(path)) for path in MODULES
    }
    assert {module: names for module, names in found.items() if names} == {}


@pytest.mark.parametrize("study", ["agreement", "agreement_data", "recency", "six_tasks"])
def test_studies_need_public_names_alone(study):
    """Whoever writes a study of their own can do the same with ``from regard import``."""
    path = PACKAGE / "studies" / f"{study}.py"
    names = [name for name in imported(path.read_text(), dotted(path)) if "regard" in name]
    own = [name for name in names if name.startswith("regard.studies.")]
    assert {*names} - {*own} <= {f"regard.{name}" for name in regard.__all__}


def test_every_folder_has_a_floor():
    folders = {path.parent.name for path in PACKAGE.glob("*/*.py")}
    assert folders <= set(FLOORS)


def test_the_ground_knows_only_torch():
    for path in PACKAGE.glob("ground/*.py"):
        names = {name.split(".")[0] for name in imported(path.read_text(), dotted(path))}
        others = {"tokenizers", "sacrebleu", "safetensors", "typer", "rich", "pydantic"}
        assert not names & (others - {"pydantic"} if path.name == "config.py" else others)


@pytest.mark.parametrize(
    ("module", "source", "wrong"),
    [
        ("regard.parts.block", "from regard.ground.layout import Layout", False),
        ("regard.parts.block", "from regard.parts import attend", False),
        ("regard.parts.block", "from regard.text import words", True),
        ("regard.parts.block", "import regard.models.facts", True),
        ("regard.parts.block", "def f():\n    from regard.search import beam", True),
        ("regard.parts.block", "from regard import load", True),
        ("regard.parts.block", "import torch", False),
        ("regard.training.loop", "from regard.inside import maps", True),
        ("regard.cli.train", "from regard.api import load", False),
        ("regard.api", "from regard.cli import main", False),
        ("regard.api", "from regard.training.loop import train", False),
        ("regard.training.loop", "from regard.api import load", True),
    ],
)
def test_the_rule_would_notice(module, source, wrong):
    assert bool(too_high(source, module)) == wrong
