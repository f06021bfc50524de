"""Faults that tests must notice: each is put into a copy of the tree, whose nearest tests then run.

    python tests/mutants.py --jobs 2 --only 'a*' 'e01_*'

A line of the list is a fault: ``{"id", "file", "old", "new", "tests"}``, where ``old`` stands once
in the file; some say ``what`` users would see of it. One that stands there no more, or more than
once, is stale: renew its line. A fault is killed if a test fails with it that passes without it.
What the tests import and what is no part of the tree, such as torch, is imported once; every fault
is tried in a process forked from this one.
"""

import argparse
import json
import os
import re
import shutil
import signal
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatch
from importlib import import_module
from multiprocessing import connection, get_context
from pathlib import Path
from typing import Self

TREE = Path(__file__).resolve().parents[1]
LEAST = 0.92  # share of the faults that must be killed
WARM = (  # what most tests import, beside regard
    "pytest",
    "hypothesis",
    "numpy",
    "torch",
    "torch._dynamo",
    "transformers",
    "scipy.stats",
    "starlette.testclient",
    "openai",
    "msgspec",
    "typer.testing",
)
NOT_COPIED = (".git", ".venv", ".hypothesis", ".mypy_cache", ".ruff_cache", ".pytest_cache")
LIMIT = 900  # seconds that tests may take without a fault
PASSED = 0  # exit code of pytest


class Verdict(StrEnum):
    """What became of a fault."""

    KILLED = "killed"
    SLOW = "killed: too slow"
    SURVIVED = "SURVIVED"
    STALE = "stale"
    UNTRIED = "untried"


@dataclass(frozen=True)
class Fault:
    """A change of one place in one file, and the tests nearest to it."""

    id: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    @classmethod
    def of_line(cls, line: str) -> Self:
        values = json.loads(line)
        return cls(*(values[name] for name in ("id", "file", "old", "new")), tuple(values["tests"]))

    def occurrences(self, tree: Path) -> int:
        """How often the text that it replaces stands in the file."""
        file = tree / self.file
        return file.read_text().count(self.old) if file.is_file() else 0

    def put_into(self, tree: Path) -> None:
        """Change the file."""
        file = tree / self.file
        file.write_text(file.read_text().replace(self.old, self.new))


@dataclass(frozen=True)
class Trial:
    """Tests to run, with a fault or without one."""

    tests: tuple[str, ...]
    fault: Fault | None
    limit: float  # seconds


@dataclass(frozen=True)
class Outcome:
    """How the tests of a trial ended; ``code`` is None if they were stopped at the limit."""

    code: int | None
    seconds: float
    output: str

    @property
    def why(self) -> str:
        """First test that failed, else the last line."""
        failed = re.search(r"^(?:FAILED|ERROR) (.*)$", self.output, re.MULTILINE)
        lines = self.output.strip().splitlines()
        return failed[1] if failed else lines[-1] if lines else f"exit code {self.code}"


@dataclass
class _Running:
    trial: Trial
    folder: tempfile.TemporaryDirectory[str]
    start: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.process = get_context("fork").Process(target=_run, args=(self.trial, self.tree))
        self.process.start()

    @property
    def tree(self) -> Path:
        return Path(self.folder.name) / "tree"

    def end(self) -> Outcome | None:
        """How it ended, if it has; at its limit it is stopped, with all that it started."""
        seconds, code = time.monotonic() - self.start, self.process.exitcode
        if code is None and seconds < self.trial.limit:
            return None
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.join()
        output = self.tree.with_name("output")
        text = output.read_text(errors="replace") if output.is_file() else ""
        self.folder.cleanup()
        return Outcome(code, seconds, text)


def _run(trial: Trial, tree: Path) -> None:
    """Copy the tree, put the fault in and run the tests; ends the process."""
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    shutil.copytree(Path.cwd(), tree, ignore=shutil.ignore_patterns(*NOT_COPIED), symlinks=True)
    if trial.fault:
        trial.fault.put_into(tree)
    handle = os.open(tree.with_name("output"), os.O_WRONLY | os.O_CREAT)
    for stream in (1, 2):
        os.dup2(handle, stream)
    os.chdir(tree)
    os.environ.update(PYTHONPATH=str(tree / "src"), PWD=str(tree), HYPOTHESIS_PROFILE="ci")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    temporary = tree.with_name("tmp")
    temporary.mkdir()
    tempfile.tempdir = os.environ["TMPDIR"] = str(temporary)
    sys.path[0] = str(tree / "src")  # in place of the folder of this script
    import pytest

    marks = "not slow and not gpu and not browser"
    options = ["-q", "-x", "--tb=no", "--no-header", "-p", "no:cacheprovider", "-m", marks]
    imported = ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # as asked: see WARM
    code = pytest.main([*options, *imported, *trial.tests])
    sys.stdout.flush()
    os._exit(code)


def run_all(trials: Iterable[Trial], jobs: int) -> Iterator[tuple[Trial, Outcome]]:
    """Run so many trials at a time; they come as they end."""
    waiting, running = iter(trials), list[_Running]()
    try:
        while True:
            while len(running) < jobs and (trial := next(waiting, None)):
                running.append(_Running(trial, tempfile.TemporaryDirectory(prefix="mutant-")))
            if not running:
                return
            connection.wait([each.process.sentinel for each in running], timeout=0.5)
            for each in [*running]:
                if outcome := each.end():
                    running.remove(each)
                    yield each.trial, outcome
    finally:
        for each in running:
            with suppress(ProcessLookupError):
                os.killpg(each.process.pid, signal.SIGKILL)
            each.folder.cleanup()


def main(arguments: Sequence[str] | None = None) -> int:
    """Try the faults; 1 if too few are killed."""
    options = _options(arguments)
    faults = [Fault.of_line(line) for line in options.list.read_text().splitlines()]
    faults = [one for one in faults if any(fnmatch(one.id, each) for each in options.only)]
    os.chdir(options.tree)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what runs is ended, too
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # torch reads it when it is loaded
    for module in options.warm:
        with suppress(ImportError):
            import_module(module)
    found = defaultdict[Verdict, list[str]](list)
    for fault, (verdict, why), seconds in try_all(faults, options.jobs, options.grace):
        found[verdict].append(fault.id)
        print(f"{verdict:<16}  {fault.id:<34}  {seconds:5.1f} s  {why[:150]}", flush=True)
    print()
    for verdict in (Verdict.SURVIVED, Verdict.UNTRIED, Verdict.STALE):
        if found[verdict]:
            print(f"{len(found[verdict])} {verdict}: {', '.join(sorted(found[verdict]))}")
    killed = len(found[Verdict.KILLED]) + len(found[Verdict.SLOW])
    counted = killed + len(found[Verdict.SURVIVED]) + len(found[Verdict.UNTRIED])
    share = killed / max(counted, 1)
    print(f"{killed} of {counted} killed: {share:.1%}, of at least {options.least:.1%}")
    return int(share < options.least)


def try_all(
    faults: Sequence[Fault], jobs: int, grace: float
) -> Iterator[tuple[Fault, tuple[Verdict, str], float]]:
    """What becomes of each fault, why, and the seconds it took; tests run without faults first."""
    current = []
    for fault in faults:
        if (times := fault.occurrences(Path.cwd())) == 1:
            current.append(fault)
        else:
            yield fault, (Verdict.STALE, f"its text stands {times} times in {fault.file}"), 0.0
    clean = (Trial(tests, None, LIMIT) for tests in dict.fromkeys(one.tests for one in current))
    without = {trial.tests: outcome for trial, outcome in run_all(clean, jobs)}
    trials = []
    for fault in current:
        own = without[fault.tests]
        if own.code == PASSED:
            trials.append(Trial(fault.tests, fault, grace + 3 * own.seconds))
        else:
            yield fault, (Verdict.UNTRIED, f"without the fault: {own.why}"), own.seconds
    for trial, outcome in run_all(trials, jobs):
        assert trial.fault
        yield trial.fault, judge(outcome, without[trial.tests]), outcome.seconds


def judge(outcome: Outcome, without: Outcome) -> tuple[Verdict, str]:
    """Verdict on a fault by its tests with it and without it, and why."""
    if outcome.code is None:
        both = f"{outcome.seconds:.0f} s, without the fault {without.seconds:.0f} s"
        return Verdict.SLOW, f"stopped after {both}"
    killed = outcome.code != PASSED
    return (Verdict.KILLED, outcome.why) if killed else (Verdict.SURVIVED, "")


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    listed = Path(__file__).with_suffix(".jsonl")
    parser.add_argument("--list", type=Path, default=listed, help="faults, one a line")
    parser.add_argument("--only", nargs="+", default=["*"], help="ids of faults, * for any letters")
    parser.add_argument("--jobs", type=int, default=1, help="how many faults at a time")
    parser.add_argument("--least", type=float, default=LEAST, help="share that must be killed")
    slower = "seconds that tests may take with a fault, beyond three times what they take without"
    parser.add_argument("--grace", type=float, default=60, help=slower)
    parser.add_argument("--tree", type=Path, default=TREE, help="folder that has the files")
    parser.add_argument("--warm", nargs="*", default=WARM, help="modules to import once")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
