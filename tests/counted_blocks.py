"""A ``regard`` of small blocks, whose workers note each block that they finish in a file."""

import os
import time
from functools import partial
from pathlib import Path

from regard.cli import main as run_cli
from regard.experiments.bulk import component_runs, result_file
from regard.tasks import components

BLOCK = 64
FILE = "BLOCKS"  # environment variable: the path of the file
PAUSE = 0.05  # seconds that a block takes at least: a kill has something to interrupt


class CountedSpec(components.ComponentSpec):
    def open_block_runner(self):
        return partial(run_counted, super().open_block_runner())


def run_counted(run_block, inputs, keys, skip_bad):
    time.sleep(PAUSE)
    results = run_block(inputs, keys, skip_bad)
    with Path(os.environ[FILE]).open("a") as file:
        file.write(f"{keys[0]} {os.getpid()}\n")
    return results


def finished_blocks(path):
    """The first key of each block in a file, and the process that finished it."""
    lines = Path(path).read_text().splitlines() if Path(path).exists() else []
    return [tuple(map(int, line.split())) for line in lines]


def main():
    component_runs.BLOCK, result_file.EVERY = BLOCK, 0.0
    components.ComponentSpec = CountedSpec
    run_cli()
