"""Time of a verb with processes and with Ray on this machine, in turns, and the ratio.

Command: python bench/bulk.py MODEL FILE --verb embed --workers 2 --rounds 3
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SYSTEMS: dict[str, tuple[str, ...]] = {"processes": (), "ray": ("--ray", "local")}


def seconds_of(options: argparse.Namespace, more: tuple[str, ...]) -> float:
    """Seconds of one command, from its start to its end."""
    with tempfile.TemporaryDirectory() as folder:
        out = str(Path(folder) / f"out{options.suffix}")
        words = [options.verb, options.model, options.file, "--workers", str(options.workers)]
        words += ["--device", "cpu", "--out", out, *more]
        begun = time.monotonic()
        subprocess.run([sys.executable, "-m", "regard", *words], check=True, capture_output=True)
        return time.monotonic() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("file")
    parser.add_argument("--verb", default="embed")
    parser.add_argument("--suffix", default=".npy")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    times: dict[str, list[float]] = {name: [] for name in SYSTEMS}
    for _ in range(options.rounds):
        for name, more in SYSTEMS.items():
            times[name].append(round(seconds_of(options, more), 1))
    medians = {name: statistics.median(values) for name, values in times.items()}
    ratio = round(medians["ray"] / medians["processes"], 3)
    print(json.dumps({"seconds": times, "ray / processes": ratio}))


if __name__ == "__main__":
    main()
