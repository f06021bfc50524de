"""Tiny documents to pre-train on: each stays with one kind of animal."""

import random

import torch

RECIPE = """
task = "pretrain"

[about]
title = "animals that follow each other"
command = "regard train animals.toml"
hardware = "any"
minutes = 0.1

[data]
train = { documents = "animals.txt" }
dev = { held_out = 4 }

[text]
kind = "wordpiece"
vocab = 110
lower = true

[model]
paper = "bert"
size = "tiny"
change = { width = 32, inner = 64, depth = 1, heads = 2, longest = 32, init_std = 0.1 }

[batches]
tokens = 256
rows = 24
longest = 32
mixed = true

[optimiser]
kind = "adamw"
rate = 5e-3
schedule = "constant"
warmup = 20
clip = 1.0

[train]
steps = 12
smoothing = 0.0
precision = "fp32"
evaluate_every = 6
checkpoint_every = 4
report_every = 1
"""
KINDS = {
    "water": ["seal", "otter", "heron", "salmon", "beaver", "swimming"],
    "wood": ["badger", "squirrel", "cuckoo", "marten", "hedgehog", "climbing"],
    "stone": ["ibex", "eagle", "marmot", "raven", "lizard", "sunbathing"],
}


def write_animals(folder, documents=24, sentences=40):
    """Documents that stay with one kind of animal, whose words come two by two."""
    draw = random.Random(3)
    blocks = []
    for _ in range(documents):
        words = KINDS[draw.choice(sorted(KINDS))]
        pairs = [words[i : i + 2] for i in (0, 2, 4)]
        lines = [
            " ".join(map(" ".join, draw.choices(pairs, k=draw.randint(1, 3))))
            for _ in range(sentences)
        ]
        blocks.append("".join(f"{line}.\n" for line in lines))
    (folder / "animals.txt").write_text("\n".join(blocks))
    (folder / "animals.toml").write_text(RECIPE)
    return folder


def training_loss_of_dev(run):
    """The loss that training would report of the development set, with the model as it is."""
    task, prepared, world = run.job.evaluate.args
    torch.manual_seed(0)
    losses = []
    with torch.inference_mode():
        for batch in prepared.dataset.dev_batches(task.objectives, world):
            losses.append(task.objectives(run.job.model, batch)[0])
    weights = [task.objectives.weight(row) for row in prepared.dataset.dev]
    return (sum(losses) / torch.as_tensor(sum(weights))).sum().item()
