"""The three stages of ULMFiT, tiny: a language model, one of other texts, a classifier of these."""

import random
from pathlib import Path

from regard.training.recipe import read
from regard.training.run import Run, prepare
from small_runs import ALONE

GENERAL = ["the", "a", "fox", "owl", "hen", "sees", "hears", "."]
REVIEWS = ["the", "film", "plot", "sees", "good", "bad", "."]
ABOUT = """
[about]
title = "three stages"
command = "regard train stage.toml"
hardware = "any"
minutes = 0.1

[optimiser]
kind = "adamw"
rate = 0.01
schedule = "slanted"
warmup = 2
betas = [0.7, 0.99]
eps = 1e-8

[train]
steps = 12
smoothing = 0.0
precision = "fp32"
evaluate_every = 6
checkpoint_every = 3
report_every = 1
"""
LANGUAGE_MODEL = """
task = "pretrain"

[data]
train = { text = "NAME.txt" }
dev = { text = "NAME.txt" }

[text]
kind = "words"
vocab = 40

[objective.causal-lm]
rows = "streams"

[batches]
tokens = 64
rows = 4
longest = 16
"""
SIZES = "change = { width = 12, embedding = 8, last_width = 8 }"
STAGES = {
    "general": LANGUAGE_MODEL.replace("NAME", "general") + f'[model]\npaper = "awd-lstm"\n{SIZES}',
    "reviews": LANGUAGE_MODEL.replace("NAME", "reviews")
    + '[model]\npaper = "ulmfit"\nstart = "general/model"\nvocabulary = "text"\n',
    "labels": """
task = "classify"

[data]
train = { table = "train.tsv", columns = ["text", "label"] }
dev = { table = "train.tsv", columns = ["text", "label"] }
test = { table = "train.tsv", columns = ["text", "label"] }

[model]
start = "reviews/model"

[model.change]
bptt = 5
dropout = 0.0
input_dropout = 0.0
hidden_dropout = 0.1
weight_drop = 0.1
word_dropout = 0.0
rates = [0.1, 0.0]

[batches]
tokens = 256
rows = 16
longest = 32
""",
}


def write_stages(folder: Path) -> Path:
    """General text, reviews, reviews with labels, and a recipe of each stage."""
    draw = random.Random(3)
    for name, words in (("general", GENERAL), ("reviews", REVIEWS)):
        lines = (" ".join(draw.choices(words, k=6)) for _ in range(120))
        (folder / f"{name}.txt").write_text("\n".join(lines))
    rows = ["text\tlabel"]
    for number in range(48):
        words = [*draw.choices(["the", "film", "plot", "."], k=5), ("bad", "good")[number % 2]]
        rows.append(f"{' '.join(draw.sample(words, 6))}\t{('neg', 'pos')[number % 2]}")
    (folder / "train.tsv").write_text("\n".join(rows) + "\n")
    for name, recipe in STAGES.items():
        (folder / f"{name}.toml").write_text(recipe + ABOUT)
    return folder


def prepared(corpus: Path, stage: str, out: Path, *settings: str, resume: bool = False) -> Run:
    """A run of a stage."""
    recipe = read(corpus / f"{stage}.toml", settings)
    return prepare(recipe, out, ALONE, data=corpus, resume=resume)
