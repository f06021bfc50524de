"""Systems that take turns, each in a process of its own, and figures with intervals.

A script names its systems as ``Spec``s. ``running`` starts a process for each (worker.py), all at
once, and lets them compile and warm up; then one at a time does a round. No system sees what
another has imported or set: a peer's process has nothing of regard. This file imports neither torch
nor regard.
"""

import argparse
import json
import math
import os
import platform
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import date
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import matrix
from worker import seconds_of

MEASURED, NOMINAL = 784e12, 989e12  # bf16 products a second on an H200: a large matmul; the sheet
CLEAR = 0.05  # how often an interval may miss
WORKER = Path(__file__).with_name("worker.py")
OURS = "regard"
ENVIRONMENT = dict(os.environ)  # that of systems: importing regard, later, sets variables for torch


class Spec(NamedTuple):
    """A system: MODULE:FUNCTION, and the settings with which its process calls it.

    ``python`` is the interpreter, for a peer that has an environment of its own.
    """

    entry: str
    settings: dict[str, Any] = {}  # noqa: RUF012
    python: str = sys.executable


class Interval(NamedTuple):
    """A median, and where it lies in 95 of 100 cases; for few rounds, the lowest and highest."""

    low: float
    median: float
    high: float


class SystemEnded(Exception):
    """A system that gave no answer, and why."""


class Worker:
    """A system in a process of its own. ``result`` is that of its last round."""

    def __init__(self, spec: Spec):
        self.log = tempfile.TemporaryFile()  # noqa: SIM115
        self.process = subprocess.Popen(
            [spec.python, str(WORKER), spec.entry],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            start_new_session=True,
            env=ENVIRONMENT,
        )
        self.unread = b""
        self.result: Any = None
        self.remarks: dict[str, Any] = {}
        self.place: dict[str, Any] = {}
        self.ask(spec.settings)

    def ask(self, command: dict[str, Any]) -> None:
        """Send a line; whether the process still runs, its answer will show."""
        with suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(command).encode() + b"\n")  # type: ignore[union-attr]
            self.process.stdin.flush()  # type: ignore[union-attr]

    def answer(self, seconds: float = math.inf) -> dict[str, Any]:
        """The next answer, within so many seconds."""
        end, output = time.monotonic() + seconds, self.process.stdout.fileno()  # type: ignore[union-attr]
        while b"\n" not in self.unread:
            left = None if end == math.inf else max(0.0, end - time.monotonic())
            if not select.select([output], [], [], left)[0]:
                raise SystemEnded("it did not answer in time")
            read = os.read(output, 1 << 16)
            if not read:
                raise SystemEnded(self.last_words())
            self.unread += read
        line, self.unread = self.unread.split(b"\n", 1)
        return json.loads(line)

    def wait_until_built(self, seconds: float) -> None:
        """Wait for the answer to its settings."""
        answer = self.answer(seconds)
        self.remarks, self.place = answer["remarks"], answer["place"]

    def begin(self, clock: str = "elapsed", **arguments: Any) -> None:
        """Tell it to do a round."""
        self.ask({"arguments": arguments, "clock": clock})

    def end(self, seconds: float = math.inf) -> float:
        """Wait for the end of the round; its seconds, by the clock of the process."""
        answer = self.answer(seconds)
        self.result = answer.pop("result")
        taken = answer.pop("seconds")
        self.remarks |= answer
        return taken

    def last_words(self) -> str:
        """The end of what it wrote to standard error."""
        self.process.wait()
        self.log.seek(0)
        lines = map(str.strip, self.log.read().decode(errors="replace").split("\n"))
        return " | ".join(line for line in lines if line.strip("^~ "))[-600:]

    def close(self) -> None:
        """End the process and those it started."""
        for pipe in (self.process.stdin, self.process.stdout):
            with suppress(BrokenPipeError):
                pipe.close()  # type: ignore[union-attr]
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.log.close()


def add_options(
    parser: argparse.ArgumentParser, *, rounds: int, seconds: float, papers: Sequence[str] = ()
) -> None:
    """The options of every script whose systems run in processes; ``papers`` are measured."""
    parser.set_defaults(papers=papers)
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--seconds", type=float, default=seconds, help="begin no round after these")
    parser.add_argument(
        "--patience", type=float, default=400, help="seconds until all must be compiled and warm"
    )
    parser.add_argument("--apart", action="store_true", help="systems compile one by one")
    parser.add_argument("--out", type=Path, help="append the lines to this file, too")


def emit(asked: argparse.Namespace, **line: Any) -> None:
    """Print a line of results."""
    print(json.dumps(line), flush=True)
    if asked.out:
        asked.out.parent.mkdir(parents=True, exist_ok=True)
        with asked.out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


@contextmanager
def running(
    specs: Mapping[str, Spec], asked: argparse.Namespace, warm_up: Sequence[dict[str, Any]] = ({},)
) -> Iterator[dict[str, Worker]]:
    """The systems, each in its process, after a round for each item of ``warm_up``.

    They compile at the same time, unless ``asked.apart``. One that ends, is not ready in time or
    has a loss that is not finite is reported and left out. All are ended with this block, also when
    this process is terminated.
    """
    workers: dict[str, Worker] = {}
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        for name, spec in specs.items():
            workers[name] = Worker(spec)
            for arguments in warm_up:
                workers[name].begin(**arguments)
            if asked.apart:
                _wait(workers, name, len(warm_up), asked, time.monotonic())
        if not asked.apart:
            began = time.monotonic()
            for name in specs:
                _wait(workers, name, len(warm_up), asked, began)
        require_matrix(asked, *(worker.place["machine"] for worker in workers.values()))
        yield workers
    finally:
        for worker in workers.values():
            worker.close()
        signal.signal(signal.SIGTERM, before)


def require_matrix(asked: argparse.Namespace, *machines: str) -> None:
    """End the script if it runs on a GPU, and the matrix of one of its papers is not fine."""
    if {*machines} - {platform.machine()}:
        matrix.require(asked.papers)


def _wait(
    workers: dict[str, Worker], name: str, rounds: int, asked: argparse.Namespace, began: float
) -> None:
    worker = workers[name]
    try:
        for number in range(rounds + 1):
            left = max(1.0, asked.patience - (time.monotonic() - began))
            worker.end(left) if number else worker.wait_until_built(left)
            losses = worker.result if number == 1 else None
            if losses and isinstance(losses[0], float):
                worker.remarks["first_loss"] = round(losses[0], 3)
                if not all(map(math.isfinite, losses)):
                    raise SystemEnded(f"the losses are {losses}")
    except SystemEnded as error:
        _leave_out(workers, name, error, asked)


def _leave_out(
    workers: dict[str, Worker], name: str, error: SystemEnded, asked: argparse.Namespace
) -> None:
    emit(asked, system=name, failed=str(error))
    workers.pop(name).close()


def rounds_of(
    workers: dict[str, Worker],
    asked: argparse.Namespace,
    *,
    most: int = 0,
    clock: str = "elapsed",
    **arguments: Any,
) -> dict[str, list[float]]:
    """Seconds of every system in every round, in turns; one that ends is reported and left out."""

    def round_by(name: str) -> Callable[[], float]:
        def do_round() -> float:
            if name not in workers:
                return math.nan
            try:
                workers[name].begin(clock, **arguments)
                return workers[name].end()
            except SystemEnded as error:
                _leave_out(workers, name, error, asked)
                return math.nan

        return do_round

    each = {name: round_by(name) for name in workers}
    taken = take_turns(each, asked.rounds, limit=asked.seconds, most=most)
    return {name: seconds for name, seconds in taken.items() if name in workers}


def print_speeds(
    workers: dict[str, Worker],
    asked: argparse.Namespace,
    *,
    units: int,
    flops: float,
    unit: str = "tokens",
    clock: str = "elapsed",
    **shape: Any,
) -> None:
    """Let systems take turns; print a line for each, with the ratio of regard to it, and a last.

    A round has so many real ``units``, for which so many ``flops`` must be computed. The last line
    has the ``shape`` of the work, the machine, versions and the date.
    """
    taken = rounds_of(workers, asked, clock=clock)
    for name, seconds in taken.items():
        worker = workers[name]
        speed = interval([units / one for one in seconds])
        line = {"system": name, f"{unit}_per_second": rounded(speed, 0), "rounds": len(seconds)}
        line |= worker.remarks | of_peak(flops / units * speed.median, worker.place)
        if name != OURS and OURS in taken:
            line["regard_over_it"] = rounded(ratio(seconds, taken[OURS]))
        emit(asked, **line)
    emit(asked, **shape, **setting(workers))


def print_decoding(
    workers: dict[str, Worker],
    asked: argparse.Namespace,
    *,
    batch: int,
    first: int | None = None,
    ends: int = 0,
    **shape: Any,
) -> None:
    """Let systems take turns over batches of this size, or the first of them; print their lines.

    A line has new tokens a second (with so many ``ends`` a row), how many times faster a system is
    than every peer, or than the first system if there is none, and how many outputs are the same.
    """
    clock = "process" if asked.cpu_seconds else "elapsed"
    work = {"batch": batch, "first": first}
    taken = rounds_of(workers, asked, most=asked.most, clock=clock, **work)
    outs = {name: workers[name].result for name in taken}
    standard = next(iter(taken), "")
    peers = [name for name in taken if not name.startswith(OURS)] or [standard]
    for name, seconds in taken.items():
        tokens = sum(len(row) + ends for row in outs[name])
        same = sum(a == b for a, b in zip(outs[name], outs[standard], strict=True))
        emit(
            asked,
            system=name,
            batch=batch,
            **shape,
            tokens_per_second=rounded(interval([tokens / each for each in seconds]), 1),
            ratio={peer: rounded(ratio(taken[peer], seconds)) for peer in peers if peer != name},
            rounds=len(seconds),
            identical=f"{same}/{len(outs[name])}",
            **workers[name].remarks,
        )


def setting(workers: Mapping[str, Worker]) -> dict[str, Any]:
    """Where, with what and when the systems ran."""
    places: dict[str, Any] = {}
    for worker in workers.values():
        places |= worker.place
    return {**places, "date": date.today().isoformat()}


def timed_here(
    systems: Mapping[str, Callable[[], Any]], clock: Callable[[], float] | None = None
) -> dict[str, Callable[[], float]]:
    """Systems of this process, for ``take_turns``."""
    return {name: lambda work=work: seconds_of(work, clock) for name, work in systems.items()}


def take_turns(
    systems: Mapping[str, Callable[[], float]],
    rounds: int,
    *,
    limit: float = math.inf,
    most: int = 0,
) -> dict[str, list[float]]:
    """Seconds of every system in every round; each has compiled and warmed up before.

    Every round begins with another system: the first may find a cooler processor. ``rounds`` are
    made, and up to ``most`` until the order of the systems is clear; none begins after ``limit``
    seconds, the first excepted.
    """
    taken: dict[str, list[float]] = {name: [] for name in systems}
    start = time.perf_counter()
    for number in range(max(rounds, most)):
        if number >= rounds and clear(taken):
            break
        if number and time.perf_counter() - start > limit:
            break
        first = number % len(systems)
        for name in [*systems][first:] + [*systems][:first]:
            taken[name].append(systems[name]())
    return taken


def interval(values: Sequence[float]) -> Interval:
    """The median and its interval by order statistics, which asks nothing of the distribution."""
    ordered, count = sorted(values), len(values)
    outside, below = 0, 0.0
    while outside < count // 2:
        below += math.comb(count, outside) / 2**count
        if 2 * below > CLEAR:
            break
        outside += 1
    at = max(outside - 1, 0)
    return Interval(ordered[at], statistics.median(ordered), ordered[count - 1 - at])


def ratio(theirs: Sequence[float], ours: Sequence[float]) -> Interval:
    """How many times faster ``ours`` is, by rounds: what slows one round slows both systems."""
    return interval([a / b for a, b in zip(theirs, ours, strict=True)])


def clear(taken: Mapping[str, Sequence[float]]) -> bool:
    """Whether it is certain of each system, by median, that it is faster than the next."""
    ordered = sorted(taken.values(), key=statistics.median)
    rounds = len(ordered[0])
    return 2 / 2**rounds <= CLEAR and all(
        ratio(slower, faster).low > 1 for faster, slower in pairwise(ordered)
    )


def rounded(values: Interval, digits: int = 2) -> list[float]:
    """Median, low, high, as they are printed."""
    return [round(value, digits) for value in (values.median, values.low, values.high)]


def of_peak(flops: float, place: Mapping[str, Any]) -> dict[str, float]:
    """The share of an H200 that ``flops`` a second are, of what was measured and of the sheet."""
    if "H200" not in place.get("machine", ""):
        return {}
    return {"mfu": round(flops / MEASURED, 3), "mfu_nominal": round(flops / NOMINAL, 3)}
