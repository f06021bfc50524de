"""Imports go down a floor, never up, and sideways only within a folder."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import regard
from syntax import nodes

PACKAGE = Path(__file__).parents[2] / "src" / "regard"
PUBLIC, TOP = 7, 9  # names of ``import regard``; front ends
FLOORS = {
    "core": 0,
    **dict.fromkeys(["layers", "text", "images", "metrics", "weights"], 1),
    **dict.fromkeys(["models", "data"], 2),
    **dict.fromkeys(["objectives", "generation"], 3),
    "inference": 4,
    **dict.fromkeys(["tasks", "views"], 5),
    **dict.fromkeys(["training", "inside"], 6),
    "api": PUBLIC,
    "experiments": 8,
    **dict.fromkeys(["cli", "serving", "studio"], TOP),
}
MODULES = sorted(set(PACKAGE.rglob("*.py")) - {PACKAGE / "__main__.py"})  # it calls the verbs


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
        and FLOORS.get(folder(name), PUBLIC) >= floor
        and not (floor == FLOORS.get(folder(name), PUBLIC) == TOP and folder(name) != "cli")
    ]


def dotted(path: Path) -> str:
    return ".".join(("regard", *path.relative_to(PACKAGE).with_suffix("").parts))


def test_imports_go_down():
    found = {
        dotted(path): too_high(path.read_text(encoding="utf-8"), dotted(path)) for path in MODULES
    }
    assert not {module: names for module, names in found.items() if names}


def test_every_module_that_is_imported_exists():
    """Those imported inside functions, too, which no type checker misses where stubs may be."""
    known = {dotted(path).removesuffix(".__init__") for path in PACKAGE.rglob("*.py")}
    for path in [*PACKAGE.rglob("*.py"), *Path(__file__).parents[1].rglob("*.py")]:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            module = re.match(r"\s*from (regard\.[\w.]+) import\b", line)
            assert module is None or module[1] in known, f"{path}:{number}"


@pytest.mark.parametrize("study", ["agreement", "agreement_data", "recency", "six_tasks"])
def test_studies_need_public_names_alone(study):
    """Whoever writes a study of their own can do the same with ``from regard import``."""
    path = PACKAGE / "experiments" / "studies" / f"{study}.py"
    names = [name for name in imported(path.read_text(), dotted(path)) if "regard" in name]
    own = [name for name in names if name.startswith("regard.experiments.studies.")]
    assert {*names} - {*own} <= {f"regard.{name}" for name in regard.__all__}


def test_every_folder_has_a_floor():
    folders = {path.parent.name for path in PACKAGE.glob("*/*.py")}
    assert folders <= set(FLOORS)


def test_the_ground_knows_only_torch():
    for path in PACKAGE.glob("core/*.py"):
        names = {name.split(".")[0] for name in imported(path.read_text(), dotted(path))}
        others = {"tokenizers", "sacrebleu", "safetensors", "typer", "rich", "pydantic"}
        assert not names & (others - {"pydantic"} if path.name == "config.py" else others)


@pytest.mark.parametrize(
    ("module", "source", "wrong"),
    [
        ("regard.layers.block", "from regard.core.layout import Layout", False),
        ("regard.layers.block", "from regard.layers import attend", False),
        ("regard.layers.block", "from regard.text import words", True),
        ("regard.layers.block", "import regard.models.facts", True),
        ("regard.layers.block", "def f():\n    from regard.generation import beam", True),
        ("regard.layers.block", "from regard import load", True),
        ("regard.layers.block", "import torch", False),
        ("regard.training.loop", "from regard.inside import maps", True),
        ("regard.cli.train", "from regard.api import load", False),
        ("regard.api", "from regard.cli import main", True),
        ("regard.api", "from regard.training.loop import train", False),
        ("regard.training.loop", "from regard.api import load", True),
        ("regard.experiments.ladder", "from regard.api import load", False),
        ("regard.experiments.ladder", "from regard.cli.io.console import note", True),
        ("regard.studio.papers", "from regard.cli import options", True),
        ("regard.cli.verbs.studio", "from regard.studio import app", False),
    ],
)
def test_the_rule_would_notice(module, source, wrong):
    assert bool(too_high(source, module)) == wrong
