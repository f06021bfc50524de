"""Bounds of dependencies: each stands once, what is imported has one, and the script uses them."""

import ast
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions, version

import pytest

import versions
from syntax import nodes

PROJECT = tomllib.loads((versions.ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
SOURCES = sorted((versions.ROOT / "src" / "regard").rglob("*.py"))
# Modules that come with a dependency, or are imported only where somebody else has done so.
BESIDE = {"pydantic_core", "traitlets", "triton", "_typeshed"}


def imported(source):
    """First names of the modules that a source imports from elsewhere."""
    for node in nodes(source):
        if isinstance(node, ast.Import):
            yield from (one.name.partition(".")[0] for one in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


def spelled(name):
    return name.lower().replace("_", "-")


def test_each_dependency_has_one_bound():
    asked = versions.requirements_of(PROJECT)
    names = [spelled(one.name) for one in asked]
    assert sorted(names) == sorted({*names})
    assert all(versions.bound_of(one) for one in asked)


def test_all_that_is_imported_has_a_bound():
    known = {spelled(one.name) for one in versions.requirements_of(PROJECT)} | {"torch"}
    owners = packages_distributions()
    names = {name for path in SOURCES for name in imported(path.read_text(encoding="utf-8"))}
    others = names - sys.stdlib_module_names - BESIDE - {"regard"}
    installed = {name for name in others if name in owners}
    assert {"torch", "h11", "starlette"} <= installed
    strange = {name for name in installed if not known & {spelled(one) for one in owners[name]}}
    assert strange == set()


def test_the_lowest_are_the_bounds_and_the_newest_have_none():
    lowest, newest = versions.lowest(PROJECT), versions.newest(PROJECT)
    assert {"numpy==1.26", "starlette==1.1"} <= {*lowest} and {"numpy", "pytest"} <= {*newest}
    assert not any(line.startswith(("torch", "pytest", "ray")) for line in lowest)


def answering(monkeypatch, code=0, stdout="", stderr=""):
    """Have pip say this."""
    done = subprocess.CompletedProcess([], code, stdout, stderr)
    monkeypatch.setattr(versions, "pip", lambda *words: done)


def test_of_torch_builds_without_cuda_are_taken(monkeypatch, capsys):
    found = (
        "torch (99.1)\nAvailable versions: 99.1, 99.0+cpu, 99.0, 2.11.1+cpu, 2.11.0, 2.10.0+cpu\n"
    )
    answering(monkeypatch, stdout=found)
    (chosen, *_) = versions.torch_build("newest", PROJECT, [])
    assert chosen == "torch==99.0+cpu"
    (chosen, *_) = versions.torch_build("lowest", PROJECT, [])
    assert chosen == "torch==2.11.1+cpu"
    answering(monkeypatch, code=1)
    assert versions.torch_build("lowest", PROJECT, []) == []
    assert f"torch stays at {version('torch')}" in capsys.readouterr().out


def test_an_index_out_of_reach_is_said_and_wrong_bounds_fail(monkeypatch, capsys):
    answering(monkeypatch, code=1, stderr="Could not find numpy==1.26 (from versions: none)")
    assert versions.main(["lowest"]) == 0
    assert "out of reach: no other versions are tested" in capsys.readouterr().out
    for fault in ("ResolutionImpossible", "numpy==9 (from versions: 1.26.0, 2.4.6)"):
        answering(monkeypatch, code=1, stderr=fault)
        with pytest.raises(SystemExit, match="do not go together"):
            versions.main(["lowest"])
