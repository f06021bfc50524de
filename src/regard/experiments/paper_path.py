"""``regard papers PAPER --path``: functions that run, of a forward pass, a search or training."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FunctionType
from typing import cast

import numpy as np
from rich.text import Text

from regard.data.toy_language.corpus import SentencePair, corpus
from regard.experiments.paper_records import find_size
from regard.experiments.result import (
    ExperimentResult,
    OutputTable,
    lines_of,
    number_column,
    text_column,
)
from regard.inside.forward_path import (
    PathStep,
    beam_path,
    count_lines,
    forward_path,
    load_path,
    trace,
)
from regard.models.facts import values_named
from regard.models.paper import Paper
from regard.models.papers import PAPERS, paper
from regard.training.loop.trainer import Trainer
from regard.training.run_events import train_events

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


def train_path(model: Paper, size: str) -> list[PathStep]:
    """Functions that run in one step of training, from the rows of its batch to the update."""
    return trace(lambda: _train(model, size, steps=2), cast(FunctionType, Trainer.step))


def run_path(model: Paper, size: str) -> list[PathStep]:
    """Functions of a training run of one step, from a recipe and data to a saved model."""
    return trace(lambda: _train(model, size, steps=1))


PATHS: dict[str, Callable[[Paper, str], list[PathStep]]] = {
    "forward": forward_path,
    "load": load_path,
    "beam": beam_path,
    "train": train_path,
    "run": run_path,
}


@dataclass(frozen=True)
class PaperPath(ExperimentResult):
    """Functions of a paper's model, in the order of their first call."""

    paper: Paper
    steps: Sequence[PathStep]

    @classmethod
    def of(cls, name: str, kind: str) -> "PaperPath":
        """The path of this kind, one of ``PATHS``, for PAPER or PAPER:SIZE."""
        named = paper(find_size(name)[0].name)
        size = name.partition(":")[2] or named.default_size
        return cls(named, PATHS[kind](named, size))

    def _table(self, files: Sequence[str]) -> OutputTable:
        columns = [text_column("file"), number_column("line"), text_column("function")]
        rows = [(f, s.line, s.function) for f, s in zip(files, self.steps, strict=True)]
        return OutputTable(columns, rows)

    def tables(self) -> list[OutputTable]:
        return [self._table([step.file for step in self.steps])]

    def records(self) -> Iterator[dict[str, object]]:
        return (step._asdict() for step in self.steps)

    def text(self, width: int | None = None) -> Iterator[Text | str]:
        """Lines that name a file where it changes."""
        module = PAPERS.entry(self.paper.key).module
        yield f"the facts of {self.paper.name} are values in {module}"
        files = [step.file for step in self.steps]
        changes = ["" if f == b else f for f, b in zip(files, ["", *files], strict=False)]
        yield from lines_of([self._table(changes)], "text", width)
        counts = count_lines(files)
        total = f"{len(counts)} files with {sum(counts.values()):,} lines"
        yield f"{total}, {len(self.steps)} functions"


def _train(model: Paper, size: str, steps: int) -> None:
    facts, pairs = model.sizes[size], corpus(train=40, dev=8, test=4)
    alone = "pretrain" if model.pretraining else "classify"
    task = "translate" if "target" in facts.sides else alone
    layers = {"depth": 2} if max(values_named(facts, "depth"), default=0) > 2 else {}
    tables: dict[str, object] = {
        "task": task,
        "model": {"paper": model.key, "size": size, "change": layers},
        "batches": {"tokens": 256, "rows": 4, "longest": 128},
        "optimiser": {"rate": 1e-3, "warmup": 0},
        "train": {"steps": steps, "precision": "fp32"},
    }
    data = {"train": EXAMPLES[task](pairs.train), "dev": EXAMPLES[task](pairs.dev)}
    if facts.encoder.embed.reads_images:
        image_HWC = np.zeros((*facts.encoder.embed.ids_per_token[1:], 3), np.uint8)
        data = {name: [(image_HWC, str(n % 2)) for n in range(4)] for name in data}
    else:
        tables |= {"text": {"vocab": 400}, **OWN_TABLES.get(model.key, {})}
    with TemporaryDirectory() as folder:
        for _ in train_events(tables, data, Path(folder) / "run", device="cpu"):
            pass
