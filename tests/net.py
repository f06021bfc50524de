"""What a tree computes, prints, draws and serves, compared with an earlier commit.

python tests/net.py capture FOLDER [--only PART ...] [--tree PATH]    one file for each probe
python tests/net.py compare BEFORE AFTER                              each probe that differs
python tests/net.py check COMMIT [--only PART ...]                    this tree against that commit

The same script captures both trees: the probes touch only the public names, the command line, HTTP
and files, and what they need beside these is in ``net/adapter.py``. Models and data are written
once, by this tree, to ``inputs`` (``net/inputs.py``); half-done runs by the first tree that is
captured. Floats differ between machines, so both trees are captured on the same one. What is meant
to differ stands in ``net/changed.toml``, with the reason.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
PARTS = ("names", "verbs", "refusals", "families", "training", "server")
ENVIRONMENT = {
    **{"COLUMNS": "100", "LINES": "40", "TERM": "dumb", "TZ": "UTC", "LC_ALL": "C.UTF-8"},
    **{"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PYTHONHASHSEED": "0"},
    **{"HF_HUB_OFFLINE": "1", "PYTHONWARNINGS": "default", "NO_COLOR": "1"},
    "REGARD_HIDE": "compiler,cuda,bf16",  # one way to compute, whatever the machine has
}


def main(arguments: list[str] | None = None) -> int:
    """The command line; 1 if something differs or a part fails."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    capture_verb = verbs.add_parser("capture", help="write the probes of a tree")
    capture_verb.add_argument("folder", type=Path)
    capture_verb.add_argument("--tree", type=Path, default=HERE.parent)
    capture_verb.add_argument("--inputs", type=Path, help="models and data; default: in FOLDER")
    compare_verb = verbs.add_parser("compare", help="print the probes that differ")
    compare_verb.add_argument("before", type=Path)
    compare_verb.add_argument("after", type=Path)
    check_verb = verbs.add_parser("check", help="compare this tree with a commit")
    check_verb.add_argument("commit")
    for each in (capture_verb, check_verb):
        each.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, metavar="PART")
        each.add_argument("--jobs", type=int, default=2, help="parts that are captured at once")
    part_verb = verbs.add_parser("part", help="one part, in a process of a tree")
    part_verb.add_argument("name")
    for name in ("folder", "inputs", "tree"):
        part_verb.add_argument(name, type=Path)
    options = parser.parse_args(arguments)
    if options.verb == "part":
        from net.parts import run_part

        return run_part(options.name, options.folder, options.inputs, options.tree)
    if options.verb == "compare":
        return show(options.before, options.after)
    if options.verb == "check":
        return check(options.commit, options.only, options.jobs)
    folder = options.folder.resolve()
    inputs = (options.inputs or folder / "inputs").resolve()
    return capture(folder, inputs, options.tree.resolve(), options.only, options.jobs)


def capture(folder: Path, inputs: Path, tree: Path, only: list[str], jobs: int) -> int:
    """Write the probes of a tree, each part in a process of its own; 1 if a part fails."""
    if not (inputs / "complete").exists() and run("inputs", folder, inputs, HERE.parent):
        return 1
    with ThreadPoolExecutor(jobs) as pool:
        codes = pool.map(lambda part: run(part, folder, inputs, tree), only)
        return max(codes, default=0)


def run(part: str, folder: Path, inputs: Path, tree: Path) -> int:
    """One part in a process of its own; its exit code."""
    folder.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, **ENVIRONMENT, "PYTHONPATH": str(tree / "src")}
    command = [sys.executable, str(HERE / "net.py"), "part", part]
    with tempfile.TemporaryDirectory() as work:
        paths = map(str, (folder, inputs, tree))
        return subprocess.run([*command, *paths], env=environment, cwd=work).returncode


def show(before: Path, after: Path) -> int:
    """Print each probe that differs with its first difference; 1 if there are some."""
    from net.compare import compare, read_changes

    changes = read_changes(HERE / "net" / "changed.toml")
    lines, count = compare(before, after, changes)
    print(*lines, sep="\n", end="\n" if lines else "")
    print(f"{count} probes, {len(lines)} differ")
    return int(bool(lines) or not count)


def check(commit: str, only: list[str], jobs: int) -> int:
    """Capture a commit in a temporary worktree, then this tree, and compare them."""
    git = ("git", "-C", str(HERE))
    with tempfile.TemporaryDirectory(prefix="net-") as temporary:
        folder = Path(temporary).resolve()
        before, after, inputs = folder / "before", folder / "after", folder / "inputs"
        tree = folder / "tree"
        subprocess.run([*git, "worktree", "add", "--detach", str(tree), commit], check=True)
        try:
            failed = [
                capture(*place, only, jobs)
                for place in ((before, inputs, tree), (after, inputs, HERE.parent))
            ]
        finally:
            subprocess.run([*git, "worktree", "remove", "--force", str(tree)], check=True)
        return max(*failed, show(before, after))


if __name__ == "__main__":
    sys.exit(main())
