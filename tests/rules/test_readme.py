"""The README is short, and its commands that read what the tour writes work, on the short tour;
so do those in docs/commands.md and docs/models.md, and the code in docs/notebooks.md (slow).
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import regard
from verb import run, run_line

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "regard"
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


def page(name):
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


ROWS = re.findall(r"^\|.*?\| `(.*?)` \|", README, re.MULTILINE)
COMMANDS = [row for row in ROWS if re.match(r"regard \w+ runs/tour|regard papers", row)]
MORE = [command for name in ("commands.md", "models.md") for command in commands_of(page(name))]
PYTHON = [block for language, block in blocks_of(page("notebooks.md")) if language == "python"]


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
    html = (desk.folder / "runs/tour/look.html").read_text(encoding="utf-8")
    assert html.lstrip().lower().startswith("<!doctype html>")


def test_there_are_commands_to_check():
    assert len(COMMANDS) > 5 and len(MORE) > 30
    assert len(PYTHON) == 3


def test_the_readme_is_read_in_a_minute():
    assert len(README.splitlines()) <= 92
    assert "make tour" in README and "make test" in README and "CPU build" in README
    assert README.count("![") == 1
    assert [
        page for page in re.findall(r"\]\((docs/[\w-]+\.md)", README) if not (ROOT / page).is_file()
    ] == []


@pytest.mark.slow
def test_every_command(desk, monkeypatch):
    """One after the other: later ones read what earlier ones wrote."""
    monkeypatch.chdir(desk.folder)
    for command in COMMANDS:
        if command.startswith(("regard serve", "regard studio")):  # until they are stopped
            continue
        done = run_line(command)
        assert done.exit_code == 0 or _below_expected(command, done.exit_code, done.stdout), command


@pytest.mark.slow
def test_the_python_example(desk, monkeypatch, capsys):
    monkeypatch.chdir(desk.folder)
    (code,) = [block for language, block in blocks_of(README) if language == "python"]
    names: dict = {}
    exec(compile(code, "README.md", "exec"), names)
    assert (desk.folder / "look.html").is_file() and names["best"].score < 0
    assert next(names["scores"].records())["set"] == "test" and len(code.splitlines()) <= 12
    assert str(names["scores"]) in capsys.readouterr().out


@pytest.mark.slow
def test_every_command_of_the_other_page(desk):
    """By a shell, each in a process of its own."""
    for command in MORE:
        done = desk(command)
        reached = done.returncode == 0 or _below_expected(command, done.returncode, done.stdout)
        assert reached, f"{command}\n{done.stderr}"
        assert "Traceback" not in done.stderr


def _below_expected(command, code, said):
    """The short tour cannot reach what is expected of the long one; saying so is what is asked."""
    return "evaluate" in command and code == 1 and "NOT reached" in said


@pytest.mark.slow
@pytest.mark.parametrize("code", PYTHON, ids=["views", "tape", "training"])
def test_the_code_of_the_notebook(desk, monkeypatch, code):
    monkeypatch.chdir(desk.folder)
    exec(compile(code, "notebooks.md", "exec"), {})


def test_the_model_of_the_notebook_has_learned(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    exec(compile(PYTHON[-1], "notebooks.md", "exec"), {})
    assert capsys.readouterr().out.splitlines()[-1] == "good"
    predictions = regard.load("runs/cell/model").predict(["a lovely book", "a dull film"])
    assert [prediction.label for prediction in predictions] == ["good", "bad"]


def test_paths_in_the_file_tree_exist():
    (tree,) = [block for _, block in blocks_of(page("code.md")) if "floor 0" in block]
    packages = {f"{path.parent.name}/" for path in PACKAGE.glob("*/__init__.py")}
    folders = set(re.findall(r"[\w/]+/", tree))
    assert packages - folders == set()
    for name in re.findall(r"^  ([\w/]+/|\w+\.py)", tree, re.MULTILINE):
        assert (PACKAGE / name).exists(), name
