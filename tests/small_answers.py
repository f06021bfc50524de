"""A tiny causal model that learns answers after a task token: words in reverse order."""

from pathlib import Path

from small import write_corpus

RECIPE = """
task = "text-to-text"

[about]
title = "words in reverse order, by a task token"
command = "regard train answers.toml"
hardware = "any"
minutes = 0.1

[data]
train = { source = "train.src", target = "train.tgt" }
dev = { source = "dev.src", target = "dev.tgt" }
test = { source = "test.src", target = "test.tgt" }

[text]
vocab = 320

[prompt]
task_token = "<reverse>"

[model]
paper = "gpt-2"
size = "small"
change = { width = 16, depth = 1, heads = 2, inner = 32, longest = 48, dropout = 0.1 }

[batches]
tokens = 256
rows = 64
longest = 48

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


def write_answers(folder: Path) -> Path:
    """The corpus of ``small``, with a recipe beside it."""
    write_corpus(folder)
    recipe = folder / "answers.toml"
    recipe.write_text(RECIPE)
    return recipe
