"""Peak memory and time of ``regard prepare`` for growing numbers of lines, which are made here.

Memory is that of the command and its workers together; pages that several share count once (PSS).
Pages of files, those of libraries most of all, are also shared with other programs, which may come
and go: anonymous memory, which the command allocates itself, is therefore printed apart.

Command: python bench/prepare.py --lines 200000 2000000 --workers 2
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

RECIPE = """
task = "translate"
[data]
train = { source = "train.a", target = "train.b" }
dev = { source = "dev.a", target = "dev.b" }
[text]
vocab = 8000
[optimiser]
rate = 1e-3
[train]
steps = 1
"""
WORDS = 20_000
INTERVAL = 0.1  # seconds between two looks at the memory
PEAKS = {"Pss:": "peak MB", "Pss_Anon:": "anonymous MB"}  # fields of smaps_rollup


def write_lines(folder: Path, name: str, lines: int, seed: int) -> None:
    """Write pairs of lines of made-up words, whose frequencies fall as those of a language."""
    draws = random.Random(seed)
    sounds = ["ba", "ko", "ri", "ten", "lu", "sha", "mi", "dor", "e", "quin", "va", "st"]
    words = ["".join(draws.choices(sounds, k=1 + draws.randrange(4))) for _ in range(WORDS)]
    weights = [1 / (rank + 3) for rank in range(WORDS)]
    sums = [weights[0]]
    for weight in weights[1:]:
        sums.append(sums[-1] + weight)
    for side in "ab":
        with (folder / f"{name}.{side}").open("w") as file:
            for _ in range(lines):
                chosen = draws.choices(words, cum_weights=sums, k=4 + draws.randrange(14))
                file.write(" ".join(chosen) + "\n")


def measure(lines: int, workers: int, unique: bool) -> dict[str, float]:
    """Lines, seconds, and peaks of the memory of all processes of the command in MB."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_lines(folder, "train", lines, 1)
        write_lines(folder, "dev", 1_000, 2)
        (folder / "recipe.toml").write_text(RECIPE)
        words = ["prepare", folder / "recipe.toml", "--data", folder, "--out", folder / "out"]
        words += ["--workers", workers] if workers else []
        words += ["--deduplicate"] if unique else []
        begun = time.monotonic()
        process = subprocess.Popen([sys.executable, "-m", "regard", *map(str, words)])
        peaks = Counter[str]()
        while process.poll() is None:
            peaks |= sum(map(kilobytes, [process.pid, *children(process.pid)]), Counter[str]())
            time.sleep(INTERVAL)
        if process.returncode:
            sys.exit(process.returncode)
        seconds = time.monotonic() - begun
        return {"lines": lines, "workers": workers, "seconds": round(seconds, 1)} | {
            name: round(peak / 1024, 1) for name, peak in peaks.items()
        }


def children(pid: int) -> list[int]:
    """All processes that a process has started, and theirs."""
    with suppress(OSError):
        tasks = Path(f"/proc/{pid}/task").iterdir()
        direct = [int(word) for task in tasks for word in (task / "children").read_text().split()]
        return [*direct, *(below for child in direct for below in children(child))]
    return []


def kilobytes(pid: int) -> Counter[str]:
    """The memory of a process in kB: its own pages, and its share of the others."""
    sizes = Counter[str]()
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            name, *words = line.split()
            if name in PEAKS:
                sizes[PEAKS[name]] = int(words[0])
    return sizes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, nargs="+", default=[200_000, 2_000_000])
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--deduplicate", action="store_true")
    options = parser.parse_args()
    for lines in options.lines:
        print(json.dumps(measure(lines, options.workers, options.deduplicate)), flush=True)


if __name__ == "__main__":
    main()
