"""The wheel works outside the repository: recipes, pages and C++ sources are in it."""

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow


def run(*command: object, cwd: Path) -> str:
    """Standard output of a command that sees no other regard."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    words = [str(word) for word in command]
    done = subprocess.run(
        words, cwd=cwd, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Built from a copy of the sources."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    shutil.copytree(
        ROOT / "src", source / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info")
    )
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    run(
        sys.executable, "-m", "build", "--wheel", "--no-isolation", "-o", folder, source, cwd=folder
    )
    (built,) = folder.glob("regard-*.whl")
    return built


@pytest.fixture(scope="module")
def scripts(wheel, tmp_path_factory):
    """Those of a fresh environment that has the wheel, and else the packages of the running one."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, symlinks=True)
    paths = {"base": str(folder), "platbase": str(folder)}
    site, scripts = (Path(sysconfig.get_path(one, "venv", paths)) for one in ("purelib", "scripts"))
    pip = (sys.executable, "-m", "pip", "--python", scripts / "python", "install")
    run(*pip, "--quiet", "--no-deps", "--no-index", wheel, cwd=folder)
    (site / "others.pth").write_text("\n".join(one for one in sys.path if "site-packages" in one))
    return scripts


def test_holds_every_file_of_the_package(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if name.startswith("regard/")}
    package = ROOT / "src"
    files = {
        str(path.relative_to(package))
        for path in (package / "regard").rglob("*.*")
        if path.is_file()
    }
    assert {name for name in files if "__pycache__" not in name} == names


def test_verbs_run_from_an_empty_folder(scripts, tmp_path):
    regard = scripts / "regard"
    where = run(scripts / "python", "-c", "import regard; print(regard.__file__)", cwd=tmp_path)
    assert Path(where.strip()).is_relative_to(scripts.parent)
    listed = run(regard, "recipes", cwd=tmp_path)
    assert "tour" in listed and "sst5-cove" in listed  # an example
    assert "[optimiser]" in run(regard, "recipes", "tour", cwd=tmp_path)
    assert "Bahdanau" in run(regard, "papers", cwd=tmp_path)
    assert list(tmp_path.iterdir()) == []
