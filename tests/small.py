"""A tiny job that still is the whole job: a corpus to reverse, and a recipe that learns it."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

RECIPE = """
[about]
title = "words in reverse order"
command = "regard train small.toml"
hardware = "any"
minutes = 0.1

[data]
train = { source = "train.src", target = "train.tgt" }
dev = { source = "dev.src", target = "dev.tgt" }
test = { source = "test.src", target = "test.tgt" }

[text]
vocab = 320

[model]
size = "laptop"
change = { width = 16, inner = 32, depth = 1, heads = 2, dropout = 0.1 }

[batches]
tokens = 256
rows = 64
longest = 32

[optimiser]
rate = 0.01
warmup = 10

[train]
steps = 12
precision = "fp32"
evaluate_every = 6
checkpoint_every = 3
report_every = 1

[decode]
beam = 2
"""

WORDS = [
    "ada",
    "bit",
    "cow",
    "dog",
    "elf",
    "fox",
    "gnu",
    "hen",
    "ibis",
    "jay",
    "kid",
    "lion",
    "mole",
    "newt",
    "owl",
    "pig",
    "rat",
    "sow",
]


def write_corpus(
    folder: Path, train: int = 120, held_out: int = 12, longest: int = 7, depth: int = 1
) -> Path:
    """Files whose target is the source in reverse order, with a recipe beside them."""
    draw = random.Random(7)
    for name, count in (("train", train), ("dev", held_out), ("test", held_out)):
        lines = [draw.choices(WORDS, k=draw.randint(1, longest)) for _ in range(count)]
        (folder / f"{name}.src").write_text("".join(" ".join(one) + "\n" for one in lines))
        (folder / f"{name}.tgt").write_text("".join(" ".join(one[::-1]) + "\n" for one in lines))
    recipe = folder / "small.toml"
    recipe.write_text(RECIPE.replace("depth = 1", f"depth = {depth}"))
    return recipe


def command(*arguments: object) -> list[str]:
    """The command line of ``regard`` with these arguments, run by this Python."""
    return [sys.executable, "-m", "regard", *map(str, arguments)]


def environment(threads: int = 1) -> dict[str, str]:
    """An environment in which runs are comparable: a fixed number of threads."""
    return {**os.environ, "OMP_NUM_THREADS": str(threads), "COLUMNS": "120"}


def regard(*arguments: object, **options) -> subprocess.CompletedProcess[str]:
    """Run ``regard`` in a process of its own."""
    options = {"capture_output": True, "text": True, "env": environment(), **options}
    return subprocess.run(command(*arguments), timeout=300, check=False, **options)


def start(*words: object, **variables: str) -> subprocess.Popen[str]:
    """Start a Python process."""
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(
        [sys.executable, *map(str, words)], env={**environment(), **variables}, **pipes
    )


def tensors_of(run: Path, step: int) -> dict[str, bytes]:
    """The bytes of all tensors of a checkpoint."""
    place = run / "checkpoints" / f"step-{step:08d}"
    return {path.name: path.read_bytes() for path in sorted(place.glob("*.safetensors"))}


def journal_of(run: Path) -> list[dict[str, object]]:
    """The lines of a run's journal, but for the times: no gap, no step twice."""
    lines = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    times = ("seconds", "tokens_per_second")
    return [{name: value for name, value in line.items() if name not in times} for line in lines]
