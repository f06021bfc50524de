"""Every command in the README works, on the tour in its short form; so do those in docs/commands.md
(slow), whose verbs and options are looked up in any case.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from regard.cli import LazyCommands
from verb import run, run_line

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks_of(text):
    """The language and the text of every block of code."""
    return re.findall(r"^```(\w*)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def commands_of(text):
    """The commands that a page tells its reader to give."""
    return [
        line.split("  #")[0]
        for language, block in blocks_of(text)
        for line in block.splitlines()
        if language == "console" and not line.startswith("make ")
    ]


BLOCKS = blocks_of(README)
COMMANDS = commands_of(README)
MORE = commands_of((ROOT / "docs" / "commands.md").read_text(encoding="utf-8"))
PYTHON = [block for language, block in BLOCKS if language == "python"]


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    """A folder in which the tour was taken, and ``regard`` on the path."""
    folder = tmp_path_factory.mktemp("desk")
    tools = folder / "bin"
    tools.mkdir()
    (tools / "regard").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m regard "$@"\n')
    (tools / "regard").chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
        "OMP_NUM_THREADS": "1",
        "COLUMNS": "100",
    }

    def shell(command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-o", "pipefail", "-c", command],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        patched.setenv("COLUMNS", "100")
        shell.tour = run("tour", "--quick")  # type: ignore[attr-defined]
    shell.folder = folder  # type: ignore[attr-defined]
    return shell


@pytest.mark.slow
def test_the_tour_shows_everything(desk):
    said = desk.tour.stdout
    for part in (
        "word-by-word baseline   BLEU",
        "nrefs:1|case:mixed|eff:no|tok:13a",
        "alignment error rate 0.",
        "as chosen on the development set",
        "cross, layer",
        "What to try next",
    ):
        assert re.search(re.sub(r"\s+", r"\\s+", re.escape(part).replace(r"\ ", " ")), said), part
    page = (desk.folder / "runs/tour/look.html").read_text(encoding="utf-8")
    assert page.lstrip().lower().startswith("<!doctype html>")


def test_there_are_commands_to_check():
    assert len(COMMANDS) > 5 and len(MORE) > 30
    assert "make tour" in README and "make test" in README
    assert len(PYTHON) == 1


@pytest.mark.slow
def test_every_command(desk, monkeypatch):
    """One after the other: later ones read what earlier ones wrote."""
    monkeypatch.chdir(desk.folder)
    for command in COMMANDS:
        done = run_line(command)
        assert done.exit_code == 0 or _below_expected(command, done.exit_code, done.stdout), command


@pytest.mark.slow
def test_every_command_of_the_other_page(desk):
    """By a shell, each in a process of its own."""
    for command in MORE:
        done = desk(command)
        reached = done.returncode == 0 or _below_expected(command, done.returncode, done.stdout)
        assert reached, f"{command}\n{done.stderr}"
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", [*COMMANDS, *MORE])
def test_verbs_and_options_exist(command):
    for name, arguments in re.findall(r"(?:^|\| *)regard (\w+)([^|]*)", command):
        known = {option for parameter in LazyCommands()[name].params for option in parameter.opts}
        options = set(re.findall(r"(?<!\S)--[\w-]+", arguments))
        assert options <= {*known, "--help"}, command


def _below_expected(command, code, said):
    """The short tour cannot reach what is expected of the long one; saying so is what is asked."""
    return "evaluate" in command and code == 1 and "NOT reached" in said


@pytest.mark.slow
def test_the_python_example(desk, monkeypatch):
    monkeypatch.chdir(desk.folder)
    exec(compile(PYTHON[0], "README.md", "exec"), {})


def test_paths_in_the_file_tree_exist():
    root = Path(__file__).parents[2]
    (tree,) = [block for _, block in BLOCKS if "floor 0" in block]
    for name in re.findall(r"^  ([\w/]+/|\w+\.py)", tree, re.MULTILINE):
        assert (root / "src" / "regard" / name).exists(), name
