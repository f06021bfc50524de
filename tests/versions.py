"""The server and the public face with other versions of what regard depends on.

    python tests/versions.py lowest    the lowest versions that pyproject.toml allows
    python tests/versions.py newest    the newest that pip finds, tools of the tests among them

The versions are installed into a folder that goes before the packages of this Python; then the
tests of ``TESTS`` run. Of torch only builds without CUDA are taken, from pip's index or that of
``--torch-index``, and torch stays as it is where no other one is to be had. If the index of
packages is out of reach, that is said, and it is no failure; a version that is not to be found, or
that contradicts another one, is.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from importlib.metadata import version
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[1]
STAND_INS = {"ray", "tensorboard", "wandb", "mlflow"}  # extras with which no test of ours runs
PATIENCE = ("--retries", "1", "--timeout", "30")
OUT_OF_REACH = re.compile(r"from versions: none|Retrying \(Retry|HTTP error|ConnectionError")
TESTS = (
    *("tests/serving", "tests/test_exports.py", "tests/test_api.py", "tests/test_api_encoder.py"),
    *("tests/test_api_inputs.py", "tests/test_api_options.py", "tests/test_api_rnn_lm.py"),
    *("tests/test_api_words.py", "tests/cli/test_help.py", "tests/cli/test_start.py"),
    *("tests/cli/test_tables.py", "tests/cli/io"),
    *("tests/experiments/bulk/test_line_source.py", "tests/experiments/bulk/test_table_source.py"),
    *("tests/objectives/test_list.py", "tests/experiments/test_tuning_study.py"),
    *("tests/text/tokenizers/test_encoder_tokenizer.py", "tests/text/tokenizers/test_wordpiece.py"),
    *("tests/training/test_recipe.py", "tests/weights", "tests/metrics/test_bleu.py"),
)


def main(arguments: list[str] | None = None) -> int:
    """The command line; how pytest ended."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("which", choices=("lowest", "newest"))
    parser.add_argument("--folder", type=Path, help="keep the versions there, and use them again")
    parser.add_argument("--torch-index", metavar="URL", help="where there are more builds of torch")
    asked = parser.parse_args(arguments)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = (lowest if asked.which == "lowest" else newest)(project)
    with tempfile.TemporaryDirectory() as scratch:
        folder = asked.folder or Path(scratch) / asked.which
        more = ["--extra-index-url", asked.torch_index] if asked.torch_index else []
        wanted += torch_build(asked.which, project, more)
        if not folder.is_dir() and not install(wanted, folder):
            print("the index of packages is out of reach: no other versions are tested")
            return 0
        return run_tests(folder)


def requirements_of(project: dict, *without: str) -> list[Requirement]:
    """What the package and its extras ask for, but for torch."""
    extras = project["optional-dependencies"]
    lines = [line for name, lines in extras.items() if name not in without for line in lines]
    asked = [Requirement(line) for line in (*project["dependencies"], *lines)]
    return [one for one in asked if one.name not in ("regard", "torch")]


def lowest(project: dict) -> list[str]:
    """The bounds themselves; tools of the tests stay as ``constraints.txt`` has them."""
    asked = requirements_of(project, "dev", *STAND_INS)
    return sorted({f"{one.name}=={bound_of(one)}" for one in asked})


def newest(project: dict) -> list[str]:
    """Names without bounds."""
    return sorted({one.name for one in requirements_of(project, *STAND_INS)})


def bound_of(requirement: Requirement) -> str:
    """The lowest version that a requirement allows."""
    (bound,) = (one.version for one in requirement.specifier if one.operator == ">=")
    return bound


def torch_build(which: str, project: dict, more: list[str]) -> list[str]:
    """The build of torch without CUDA that is to be installed, if there is another one."""
    (asked,) = (Requirement(one) for one in project["dependencies"] if one.startswith("torch>"))
    words = ("index", "versions", "torch", *more, *PATIENCE)
    found = pip(*words).stdout.partition("Available versions:")[2].partition("\n")[0]
    builds = [Version(one) for one in found.split(",") if one.strip().endswith("+cpu")]
    allowed = [one for one in builds if asked.specifier.contains(one.public)]
    installed = Version(version("torch"))
    chosen = (min if which == "lowest" else max)([*allowed, installed])
    if chosen == installed:
        print(f"torch stays at {installed}: no {which[:-3]}er build without CUDA is to be had here")
        return []
    return [f"torch=={chosen}", *more]


def install(wanted: list[str], folder: Path) -> bool:
    """Install into a folder; False where the index is out of reach, and an exit for the rest."""
    print("installs", *wanted, flush=True)
    done = pip("install", "--quiet", "--target", str(folder), *PATIENCE, *wanted)
    if done.returncode == 0:
        return True
    print(done.stderr, file=sys.stderr)
    if OUT_OF_REACH.search(done.stderr):
        return False
    sys.exit("these versions do not go together, or are not to be found")


def pip(*words: str) -> subprocess.CompletedProcess[str]:
    """A command of pip, of this Python."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def run_tests(folder: Path) -> int:
    """Run the tests of this tree with the packages of a folder."""
    paths = (str(ROOT / "src"), str(folder), os.environ.get("PYTHONPATH", ""))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    words = [sys.executable, "-m", "pytest", "-q", "-n", "2", "-m", "not slow and not gpu", *TESTS]
    return subprocess.run(words, cwd=ROOT, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
