"""``regard papers PAPER --path``: the functions of a forward pass, of training or of loading."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from regard.inside.forward_path import PathStep, forward_path, load_path, trace
from regard.models.facts import values_named
from regard.models.paper import Paper
from regard.tour.toy_language.corpus import corpus
from regard.training.train import train

OWN_TABLES: dict[str, dict[str, Any]] = {  # keys that a recipe of that paper needs
    "gpt": {"text": {"vocab": 400, "lower": True}},
    "elmo": {"objective": {"bilm": {"words": 100}}},
}


def path_of(paper: Paper, size: str, *, train: bool = False, load: bool = False) -> list[PathStep]:
    """The functions of a forward pass, of a training run or of loading, in order."""
    path = train_path if train else load_path if load else forward_path
    return path(paper, size)


def train_path(paper: Paper, size: str) -> list[PathStep]:
    """The functions of a training run of one step, from a recipe and data to a saved model."""
    facts, pairs = paper.sizes[size], corpus(train=40, dev=8, test=4)
    layers = {"depth": 2} if max(values_named(facts, "depth"), default=0) > 2 else {}
    tables: dict[str, Any] = {
        "model": {"paper": paper.key, "size": size, "change": layers},
        "text": {"vocab": 400},
        "batches": {"tokens": 256, "rows": 4, "longest": 128},
        "optimiser": {"rate": 1e-3, "warmup": 0},
        "train": {"steps": 1, "precision": "fp32"},
        **OWN_TABLES.get(paper.key, {}),
    }
    sets: dict[str, Sequence[Any]] = {"train": pairs.train, "dev": pairs.dev}
    with TemporaryDirectory() as place:
        data: Any = Path(place)
        if facts.encoder.embed.reads_images:
            pixels = np.zeros((8, *facts.encoder.embed.ids_per_token[1:], 3), np.uint8)
            np.savez(data / "images.npz", x_train=pixels, y_train=np.arange(8) % 2)
            images = {"file": "images.npz", "reader": "npz", "options": {"names": ["a", "b"]}}
            tables |= {"task": "classify", "data": {"train": images, "dev": {"held_out": 2}}}
            tables["batches"] = {"tokens": 4, "rows": 4, "longest": 1}
            del tables["text"]
        elif "target" in facts.sides:
            data = {
                name: [(pair.source, pair.target) for pair in part] for name, part in sets.items()
            }
        elif paper.pretraining:
            tables["task"] = "pretrain"
            texts = {name: [pair.source for pair in part] for name, part in sets.items()}
            data = {
                name: [lines[n : n + 4] for n in range(0, len(lines), 4)]
                for name, lines in texts.items()
            }
        else:
            tables["task"] = "classify"
            data = {
                name: [(pair.source, str(n % 2)) for n, pair in enumerate(part)]
                for name, part in sets.items()
            }
        return trace(lambda: [*train(tables, data, Path(place) / "run", device="cpu")])
