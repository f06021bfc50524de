"""Faults of a toy tree, of which some are killed, and one each survives, is stale, is too slow."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from mutants import TREE, Fault

SOURCE = """
def double(x):
    return 2 * x

def positive(x):
    while x < 0:
        x += 1
    return x
"""
TESTS = """
from toy import double, positive

def test_double():
    assert double(2) == 4

def test_positive():
    assert positive(-2) == 0
"""
GOOD, BAD = "tests/test_toy.py", "tests/test_bad.py"
FAULTS = {
    "wrong": ("2 * x", "3 * x", GOOD, "killed", "test_double"),
    "unseen": ("2 * x", "x + x", GOOD, "SURVIVED", ""),
    "endless": ("x += 1", "x -= 1", GOOD, "killed: too slow", "stopped after"),
    "broken": ("2 * x", "2 * (x", GOOD, "killed", "tests/test_toy.py"),
    "gone": ("4 * x", "5 * x", GOOD, "stale", "0 times in src/toy.py"),
    "twice": ("return", "yield", GOOD, "stale", "2 times in src/toy.py"),
    "failing": ("2 * x", "3 * x", BAD, "untried", "without the fault"),
    "absent": ("2 * x", "3 * x", "tests/test_none.py", "untried", "without the fault"),
}


def write_tree(folder: Path, names: tuple[str, ...]) -> list[str]:
    """A tree with some of the faults, and the arguments to try them."""
    for name in ("src", "tests"):
        (folder / name).mkdir()
    (folder / "src" / "toy.py").write_text(SOURCE)
    (folder / GOOD).write_text(TESTS)
    (folder / BAD).write_text("def test_bad():\n    assert False\n")
    markers = "markers = ['slow', 'gpu', 'browser']\naddopts = '--import-mode=importlib -ra'\n"
    (folder / "pyproject.toml").write_text(f"[tool.pytest.ini_options]\n{markers}")
    keys = ("id", "file", "old", "new", "tests")
    values = ((name, "src/toy.py", *FAULTS[name][:2], [FAULTS[name][2]]) for name in names)
    lines = [json.dumps(dict(zip(keys, each, strict=True))) for each in values]
    (folder / "faults.jsonl").write_text("\n".join(lines))
    return ["--tree", str(folder), "--list", str(folder / "faults.jsonl"), "--warm", "pytest"]


def tried(folder: Path, names: tuple[str, ...], *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(TREE / "tests" / "mutants.py"), *write_tree(folder, names)]
    return subprocess.run(
        [*command, *options], capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.slow
def test_every_verdict_is_told_with_its_reason(tmp_path):
    done = tried(tmp_path, (*FAULTS,), "--jobs", "4", "--grace", "5", "--least", "0.5")
    for name, (*_, verdict, reason) in FAULTS.items():
        (line,) = [one for one in done.stdout.splitlines() if f"  {name} " in one]
        assert line.startswith(f"{verdict}  ") and reason in line, done.stdout + done.stderr
    *_, survived, untried, stale, total = done.stdout.splitlines()
    assert survived == "1 SURVIVED: unseen" and untried == "2 untried: absent, failing"
    assert stale == "2 stale: gone, twice"
    assert total == "3 of 6 killed: 50.0%, of at least 50.0%" and done.returncode == 0
    assert (tmp_path / "src" / "toy.py").read_text() == SOURCE  # faults are put into copies


@pytest.mark.slow
@pytest.mark.parametrize(("least", "code"), [("0.5", 0), ("0.51", 1)])
def test_too_few_killed_is_a_failure(tmp_path, least, code):
    names = ("wrong", "unseen", "endless")
    done = tried(tmp_path, names, "--only", "wrong", "un*", "--least", least)
    assert done.returncode == code, done.stdout + done.stderr
    assert "endless" not in done.stdout


def test_the_list_has_texts_and_tests_that_are_there():
    lines = (TREE / "tests" / "mutants.jsonl").read_text().splitlines()
    faults = [Fault.of_line(line) for line in lines]
    assert len({fault.id for fault in faults}) == len(faults) >= 97
    for fault in faults:
        assert fault.old != fault.new, fault.id
        paths = [fault.file, *fault.tests]
        assert [path for path in paths if not (TREE / path).exists()] == [], fault.id
        assert (TREE / fault.file).read_text(encoding="utf-8").count(fault.old) == 1, fault.id
