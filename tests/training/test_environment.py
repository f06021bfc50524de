"""What a run records of its environment: versions, command, git commit."""

import json
import re
import subprocess
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
import torch

import regard
from regard.training.distributed import World
from regard.training.loop import train
from regard.training.recipe import read
from regard.training.run import prepare
from regard.training.run_folder import ENVIRONMENT, PACKAGES, environment, git_state
from regard.training.run_folder import record_environment as record
from small import write_corpus

ROOT = Path(__file__).parents[2]
ALONE = World(0, 1, torch.device("cpu"))


def git(folder: Path, *words: str) -> str:
    given = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")
    return subprocess.run(
        ["git", "-C", str(folder), *given, *words], check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture
def repository(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "-q")
    (folder / "file").write_text("first\n")
    git(folder, "add", "file")
    git(folder, "commit", "-qm", "first")
    return folder


def lines_of(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / ENVIRONMENT).read_text().splitlines()]


def test_the_commit_and_changes_of_tracked_files(repository):
    commit = git(repository, "rev-parse", "HEAD")
    assert git_state(repository) == {"commit": commit, "dirty": False}
    (repository / "other").write_text("not tracked\n")
    assert git_state(repository) == {"commit": commit, "dirty": False}
    (repository / "file").write_text("second\n")
    assert git_state(repository) == {"commit": commit, "dirty": True}


def test_no_repository_and_no_git(repository, tmp_path, monkeypatch):
    assert git_state(tmp_path) is None
    git(repository, "update-ref", "-d", "HEAD")  # a repository without a commit
    assert git_state(repository) is None
    monkeypatch.setenv("PATH", str(tmp_path))
    assert git_state(repository) is None


def test_versions_and_the_command(monkeypatch):
    monkeypatch.setattr("sys.argv", ["regard", "train", "my recipe.toml"])
    now = environment()
    assert now["regard"] == regard.__version__
    assert now["command"] == "regard train 'my recipe.toml'"
    assert now["packages"]["torch"] == version("torch")
    assert now["packages"]["numpy"] == version("numpy")


def test_every_dependency_that_computes_is_recorded():
    tables = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = {re.match(r"[\w-]+", line)[0] for line in tables["dependencies"]}
    assert needed - {"typer", "rich"} <= set(PACKAGES)


def test_a_resumed_start_is_added_and_a_line_cut_off_is_removed(tmp_path):
    record(tmp_path)
    with (tmp_path / ENVIRONMENT).open("a") as file:
        file.write('{"time"')
    record(tmp_path, resume=True)
    assert [line["regard"] for line in lines_of(tmp_path)] == [regard.__version__] * 2
    record(tmp_path)
    assert len(lines_of(tmp_path)) == 1


def test_a_run_has_a_line_for_each_start(repository, tmp_path, monkeypatch):
    write_corpus(tmp_path)
    monkeypatch.chdir(repository)
    recipe, out = read(tmp_path / "small.toml", ["train.steps=2"]), tmp_path / "run"
    run = prepare(recipe, out, ALONE, data=tmp_path)
    for _ in train(run.job):
        pass
    run.release()
    run = prepare(recipe, out, ALONE, data=tmp_path, resume=True)
    run.release()
    commit = git(repository, "rev-parse", "HEAD")
    assert [line["git"]["commit"] for line in lines_of(out)] == [commit] * 2


def test_a_run_without_steps_leaves_no_record(tmp_path):
    write_corpus(tmp_path)
    prepare(read(tmp_path / "small.toml"), tmp_path / "run", ALONE, data=tmp_path).release()
    assert not (tmp_path / "run").exists()
