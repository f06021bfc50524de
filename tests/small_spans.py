"""A tiny encoder-decoder that learns to fill spans of small texts, or to answer by a prefix."""

import random
from pathlib import Path

from small import WORDS, write_corpus

MODEL = """
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
"""
ABOUT = """
[about]
title = "{title}"
command = "regard train {file}"
hardware = "any"
minutes = 0.1
"""
SPANS = f"""
task = "pretrain"
{ABOUT.format(title="spans of small documents", file="spans.toml")}
[data]
train = {{ documents = "train.txt" }}
dev = {{ documents = "dev.txt" }}

[text]
vocab = 200

[objective.span-corruption]
{MODEL}"""
PREFIX = f"""
task = "text-to-text"
{ABOUT.format(title="words in reverse order, by a prefix", file="prefix.toml")}
[data]
train = {{ source = "train.src", target = "train.tgt" }}
dev = {{ source = "dev.src", target = "dev.tgt" }}
test = {{ source = "test.src", target = "test.tgt" }}

[text]
vocab = 200

[prompt]
prefix = "reverse words:"
{MODEL}
[decode]
beam = 2
"""


def write_spans(folder: Path) -> Path:
    """Documents of lines that count through the words, with a recipe beside them."""
    draw = random.Random(7)
    for name, count in (("train", 40), ("dev", 6)):
        starts = [[draw.randrange(len(WORDS)) for _ in range(3)] for _ in range(count)]
        lines = (
            [" ".join((WORDS * 2)[start : start + 9]) for start in document] for document in starts
        )
        (folder / f"{name}.txt").write_text("\n\n".join(map("\n".join, lines)) + "\n")
    recipe = folder / "spans.toml"
    recipe.write_text(SPANS)
    return recipe


def write_prefix(folder: Path) -> Path:
    """The corpus of ``small``, with a recipe beside it."""
    write_corpus(folder)
    recipe = folder / "prefix.toml"
    recipe.write_text(PREFIX)
    return recipe
