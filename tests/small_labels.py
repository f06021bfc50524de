"""A tiny classification job that still is the whole job: is there an owl in the text?"""

import random
from pathlib import Path

from small import WORDS

RECIPE = """
task = "classify"

[about]
title = "is there an owl?"
command = "regard train owls.toml"
hardware = "any"
minutes = 0.1

[data]
train = { table = "train.tsv", columns = ["text", "label"] }
dev = { table = "dev.tsv", columns = ["text", "label"] }
test = { table = "test.tsv", columns = ["text", "label"] }

[text]
vocab = 320

[labels]
names = { 0 = "no", 1 = "owl" }

[model]
paper = "lin"
size = "laptop"
change = { width = 12, embedding = 12, dropout = 0.1 }

[batches]
tokens = 256
rows = 32
longest = 32

[optimiser]
rate = 0.02
warmup = 5
schedule = "constant"

[train]
steps = 12
smoothing = 0.0
precision = "fp32"
metric = "accuracy"
evaluate_every = 6
checkpoint_every = 3
report_every = 1
"""


def write_owls(folder: Path, train: int = 240, held_out: int = 40) -> Path:
    """Tables of texts, half of which have an owl in them, with a recipe beside them."""
    draw = random.Random(3)
    others = [word for word in WORDS if word != "owl"]
    for name, count in (("train", train), ("dev", held_out), ("test", held_out)):
        lines = ["text\tlabel"]
        for number in range(count):
            words = draw.choices(others, k=draw.randint(1, 8))
            if number % 2:
                words.insert(draw.randint(0, len(words)), "owl")
            lines.append(f"{' '.join(words)}\t{number % 2}")
        (folder / f"{name}.tsv").write_text("\n".join(lines) + "\n")
    recipe = folder / "owls.toml"
    recipe.write_text(RECIPE)
    return recipe
