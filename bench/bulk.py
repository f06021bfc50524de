"""Time of a verb with processes and with Ray on this machine, in turns, and the ratio.

Each runs all lines, and one line: what that takes is the start, which is paid once. CPU seconds are
those of all processes that the command started, as last seen in /proc.

Command: python bench/bulk.py MODEL FILE --verb embed --workers 2 --rounds 3
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Container
from contextlib import suppress
from itertools import islice
from pathlib import Path

SYSTEMS: dict[str, tuple[str, ...]] = {"processes": (), "ray": ("--ray", "local")}
MARK = "REGARD_BENCH_BULK"  # an environment variable of all processes of a command
LOOK = 1.0  # seconds between two looks at the CPU seconds
TICK = os.sysconf("SC_CLK_TCK")


def seconds_of(
    options: argparse.Namespace, file: Path, more: tuple[str, ...]
) -> tuple[float, float]:
    """Seconds of one command, from its start to its end, and CPU seconds of its processes."""
    with tempfile.TemporaryDirectory() as folder:
        out = str(Path(folder) / f"out{options.suffix}")
        words = [options.verb, options.model, str(file), "--workers", str(options.workers)]
        words += ["--device", "cpu", "--out", out, *more]
        begun, cpu = time.monotonic(), dict[Path, float]()
        process = subprocess.Popen(
            [sys.executable, "-m", "regard", *words],
            env={**os.environ, MARK: folder},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        while process.poll() is None:
            cpu |= cpu_seconds(f"{MARK}={folder}".encode(), cpu)
            with suppress(subprocess.TimeoutExpired):
                process.wait(LOOK)
        if process.returncode:
            raise SystemExit(f"failed: regard {' '.join(words)}")
        return time.monotonic() - begun, sum(cpu.values())


def cpu_seconds(mark: bytes, known: Container[Path]) -> dict[Path, float]:
    """CPU seconds of each living process that has, or once had, the mark in its environment.

    A process of Ray that sets its title may write over its environment.
    """
    seconds = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if process in known or mark in (process / "environ").read_bytes().split(b"\0"):
                fields = (process / "stat").read_text().rpartition(")")[2].split()
                seconds[process] = (int(fields[11]) + int(fields[12])) / TICK
        except OSError:  # it has ended, or belongs to somebody else
            continue
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("file")
    parser.add_argument("--verb", default="embed")
    parser.add_argument("--suffix", default=".npy")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    runs: dict[str, list[tuple[float, float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        whole, start = Path(options.file), Path(folder) / "start.txt"
        with whole.open() as lines:
            start.write_text("".join(islice(lines, 1)))
        for number in range(options.rounds):
            systems = [*SYSTEMS.items()]
            for name, more in systems if number % 2 else systems[::-1]:
                for kind, file in {"start": start, "all": whole}.items():
                    run = seconds_of(options, file, more)
                    runs.setdefault(f"{name}, {kind}", []).append(run)
    seconds = {
        name: statistics.median(wall for wall, _ in of_name) for name, of_name in runs.items()
    }
    shown = {name: [[round(x, 1) for x in run] for run in own] for name, own in runs.items()}
    print(json.dumps(shown))
    work = {name: seconds[f"{name}, all"] - seconds[f"{name}, start"] for name in SYSTEMS}
    ratios = {
        "ray / processes": seconds["ray, all"] / seconds["processes, all"],
        "ray / processes without the start": work["ray"] / work["processes"],
        "CPU seconds": statistics.median(cpu for _, cpu in runs["ray, all"])
        / statistics.median(cpu for _, cpu in runs["processes, all"]),
    }
    print(json.dumps({name: round(ratio, 3) for name, ratio in ratios.items()}))


if __name__ == "__main__":
    main()
