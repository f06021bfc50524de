"""The safety net of a refactoring: numbers before and after it, compared bit for bit.

python tests/safety_net.py record OUT.json [--only NAME ...]    what this tree computes and prints
python tests/safety_net.py compare BASE.json NEW.json           one line for each entry that differs
python tests/safety_net.py check [--base COMMIT] [--only ...]   this tree against an earlier commit
python tests/safety_net.py freeze FOLDER                        folders and listings of this tree

Recorded are, for a small run of every kind, the gradients of the first step, all losses and the
weights at the end, on one thread in fp32; and what every verb prints on small models. Names that
change are told to ``safety/weights.py`` (parameters), ``safety/recipes.py`` (keys of recipes),
``safety/commands.py`` (verbs, options, keys of JSON) and ``safety/adapter.py`` (the package).
``tests/test_frozen.py`` reads what was frozen at the base commit, ``safety/frozen``.
"""

import argparse
import fnmatch
import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
BASE = "a067373b484d8337d9974abc5dff1415d38f361d"  # before the redraw into fewer places
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "regard-safety-net"


def main(arguments: list[str] | None = None) -> int:
    """The command line; 1 if something differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    recorder = verbs.add_parser("record", help="write what this tree computes")
    recorder.add_argument("out", type=Path)
    compare = verbs.add_parser("compare", help="print where two records differ")
    compare.add_argument("base", type=Path)
    compare.add_argument("new", type=Path)
    check = verbs.add_parser("check", help="compare this tree with an earlier commit")
    check.add_argument("--base", default=BASE, help=f"the commit; by default {BASE}")
    freezer = verbs.add_parser("freeze", help="write folders that later commits must read")
    freezer.add_argument("folder", type=Path)
    for each in (recorder, compare, check):
        each.add_argument("--only", nargs="+", default=["*"], help="entries, or patterns of them")
    asked = parser.parse_args(arguments)
    sys.path[:0] = [str(HERE), str(HERE.parent / "src")]  # this tree, whatever is installed
    if asked.verb == "record":
        from safety.record import record_all

        record = record_all(asked.only)
        write(asked.out, record)
        return int(any("failed" in entry for entry in record["entries"].values()))
    if asked.verb == "freeze":
        from safety.freeze import freeze

        freeze(asked.folder)
        return 0
    if asked.verb == "check":
        return check_against(asked.base, asked.only)
    return show(read(asked.base), read(asked.new), asked.only)


def write(path: Path, record: dict) -> None:
    """A record as JSON."""
    path.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n")


def read(path: Path) -> dict:
    """A record from JSON."""
    return json.loads(path.read_text())


def show(base: dict, new: dict, only: list[str]) -> int:
    """Print the differences; 1 if there are some."""
    from safety.compare import differences

    chosen = [name for name in base["entries"] if is_chosen(name, only)]
    found = [line for name in chosen for line in differences(name, base, new)]
    print(*found, sep="\n", end="\n" if found else "")
    for name in sorted(new["entries"].keys() - base["entries"].keys()):
        print(f"({name}: not in the base)")
    wrong = len({line.split(":")[0] for line in found})
    print(f"{len(chosen) - wrong} of {len(chosen)} entries are the same")
    return int(bool(found) or not chosen)


def is_chosen(name: str, only: list[str]) -> bool:
    """Whether one of the patterns is meant."""
    return any(fnmatch.fnmatch(name, pattern) for pattern in only)


def check_against(commit: str, only: list[str]) -> int:
    """Record a commit by its own recorder, unless that was done; record this tree; compare."""
    base = recorded(commit)
    print(f"base: {commit}", file=sys.stderr)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "new.json"
        run_recorder(HERE.parent, out, only)
        return show(base, read(out), only)


def recorded(commit: str) -> dict:
    """The record of a commit, kept for the next time by commit, machine and torch."""
    full = git("rev-parse", "--verify", f"{commit}^{{commit}}")
    stored = CACHE / f"{full}-{machine()}.json"
    if not stored.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as folder:
            tree, out = Path(folder) / "tree", Path(folder) / "base.json"
            git("worktree", "add", "--detach", str(tree), full)
            try:
                run_recorder(tree, out, ["*"])
            finally:
                git("worktree", "remove", "--force", str(tree))
            part = stored.with_suffix(f".{os.getpid()}")
            part.write_bytes(out.read_bytes())
            part.replace(stored)
    return read(stored)


def run_recorder(tree: Path, out: Path, only: list[str]) -> None:
    """Record a tree in a process of its own, by the tool and the package of that tree."""
    environment = {**os.environ, "PYTHONPATH": str(tree / "src"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(tree / "tests" / "safety_net.py"), "record", str(out)]
    subprocess.run([*command, "--only", *only], env=environment, cwd=tree, check=False)
    if not out.exists():
        raise SystemExit(f"{tree}: nothing could be recorded")


def machine() -> str:
    """What numbers may depend on beside the code: the processor and the version of torch."""
    from importlib.metadata import version

    return "-".join((platform.node(), platform.machine(), version("torch"))).replace("/", "_")


def git(*arguments: str) -> str:
    """What git says, in this repository."""
    command = ["git", "-C", str(HERE), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
