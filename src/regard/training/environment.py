"""Environment of a run: versions, command and git commit, a line of JSON for each start."""

import json
import os
import platform
import shlex
import subprocess
import sys
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from regard.core.files import read_bytes, write_bytes

ENVIRONMENT = "environment.jsonl"
# Packages on which results may depend.
PACKAGES = (
    "torch",
    "numpy",
    "tokenizers",
    "sentencepiece",
    "safetensors",
    "huggingface_hub",
    "sacrebleu",
    "pydantic",
    "triton",
    "pillow",
    "h5py",
)
GIT_SECONDS = 10  # limit of a call of git


def record_environment(folder: Path, *, resume: bool = False) -> None:
    """Add the environment of this start to the record of environments in the folder of a run."""
    path = folder / ENVIRONMENT
    earlier = b""
    if resume and path.is_file():
        lines = read_bytes(path).splitlines(keepends=True)
        earlier = b"".join(line for line in lines if line.endswith(b"\n"))
    line = json.dumps(environment(), ensure_ascii=False).encode(errors="backslashreplace")
    write_bytes(path, earlier + line + b"\n")


def environment() -> dict[str, object]:
    """Time, command, versions and the git commit of the working folder, of this process."""
    return {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "regard": _version("regard"),
        "command": shlex.join(sys.argv),
        "folder": str(Path.cwd()),
        "git": git_state(Path.cwd()),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: number for name in PACKAGES if (number := _version(name)) is not None},
    }


def git_state(folder: Path) -> dict[str, object] | None:
    """Commit of a folder's repository, and whether tracked files differ; None without a commit."""
    commit = _git(folder, "rev-parse", "HEAD")
    if commit is None:
        return None
    changes = _git(folder, "status", "-s", "-uno")
    return {"commit": commit, "dirty": None if changes is None else bool(changes)}


def _git(folder: Path, *arguments: str) -> str | None:
    """Output of a git command that changes no file; None if it fails or there is no git."""
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
            timeout=GIT_SECONDS,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


@cache
def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
