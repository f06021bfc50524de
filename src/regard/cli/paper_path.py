"""``regard papers PAPER --path``: the functions of a forward pass, of training or of loading."""

from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from regard.inside.forward_path import PathStep, forward_path, load_path, trace
from regard.models.facts import values_named
from regard.models.paper import Paper
from regard.tour.toy_language.corpus import SentencePair, corpus
from regard.training.train import train

OWN_TABLES: dict[str, dict[str, object]] = {  # keys that a recipe of that paper needs
    "gpt": {"text": {"vocab": 400, "lower": True}},
    "elmo": {"objective": {"bilm": {"words": 100}}},
}

Examples = Callable[[Sequence[SentencePair]], list[object]]
EXAMPLES: dict[str, Examples] = {  # from sentence pairs, by task
    "translate": lambda pairs: [(pair.source, pair.target) for pair in pairs],
    "pretrain": lambda pairs: [
        [pair.source for pair in pairs[n : n + 4]] for n in range(0, len(pairs), 4)
    ],
    "classify": lambda pairs: [(pair.source, str(n % 2)) for n, pair in enumerate(pairs)],
}


def path_of(paper: Paper, size: str, *, train: bool = False, load: bool = False) -> list[PathStep]:
    """The functions of a forward pass, of a training run or of loading, in order."""
    path = train_path if train else load_path if load else forward_path
    return path(paper, size)


def train_path(paper: Paper, size: str) -> list[PathStep]:
    """The functions of a training run of one step, from a recipe and data to a saved model."""
    facts, pairs = paper.sizes[size], corpus(train=40, dev=8, test=4)
    alone = "pretrain" if paper.pretraining else "classify"
    task = "translate" if "target" in facts.sides else alone
    layers = {"depth": 2} if max(values_named(facts, "depth"), default=0) > 2 else {}
    tables: dict[str, object] = {
        "task": task,
        "model": {"paper": paper.key, "size": size, "change": layers},
        "batches": {"tokens": 256, "rows": 4, "longest": 128},
        "optimiser": {"rate": 1e-3, "warmup": 0},
        "train": {"steps": 1, "precision": "fp32"},
    }
    data = {"train": EXAMPLES[task](pairs.train), "dev": EXAMPLES[task](pairs.dev)}
    if facts.encoder.embed.reads_images:
        image_HWC = np.zeros((*facts.encoder.embed.ids_per_token[1:], 3), np.uint8)
        data = {name: [(image_HWC, str(n % 2)) for n in range(4)] for name in data}
    else:
        tables |= {"text": {"vocab": 400}, **OWN_TABLES.get(paper.key, {})}
    with TemporaryDirectory() as folder:
        return trace(lambda: [*train(tables, data, Path(folder) / "run", device="cpu")])
