"""Folders of a run."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from regard.core.errors import BadInput
from regard.core.files import remove, replacing_folder
from regard.core.workers import StartWorkers
from regard.data.readers.fields import DropCounts
from regard.weights.files import read_tensors, write_tensors

CPU = torch.device("cpu")
STDIN_COPY = "stdin.txt"  # of a run that trains on standard input


@dataclass(frozen=True)
class RunPaths:
    """Folders of a run: ``data`` with the files of the recipe, ``out`` with everything it writes.

    One process ``leads``: it writes. Models that help to prepare the data run on its ``device``.
    A run may read a folder that was ``prepared``, with tokenizer and tokenised examples. Workers
    tokenise in parallel if ``start_workers`` is given. With ``deduplicate``, training examples that
    occur before are left out.
    """

    data: Path
    out: Path
    leads: bool = True
    resume: bool = False
    skip_bad: bool = False
    device: torch.device = CPU
    prepared: Path | None = None
    start_workers: StartWorkers | None = None
    deduplicate: bool = False

    @property
    def store(self) -> Path:
        """The folder of tokenised examples."""
        return (self.prepared or self.out) / "data"

    @property
    def text(self) -> Path:
        """The folder of tokenizer and labels."""
        return (self.prepared or self.out) / "text"

    @property
    def fresh(self) -> bool:
        """Whether this process writes, and the run is not resumed, nor its data prepared."""
        return self.leads and not self.resume and self.prepared is None

    def dropping(self) -> DropCounts | None:
        """New counts of dropped examples; None if bad examples are errors."""
        return DropCounts() if self.skip_bad else None

    def keep_text(self, *values: Any) -> None:
        """Write tokenizer and labels atomically."""
        with replacing_folder(self.text) as folder:
            for value in values:
                if value is not None:
                    value.save(folder)
            remove(self.text)

    def keep_array(self, name: str, compute: Callable[[], np.ndarray]) -> np.ndarray:
        """Compute an array once: the leader of a new run writes it, all others read it."""
        path = self.store / f"{name}.safetensors"
        if self.fresh or not path.exists():
            array = compute()
            if self.leads:
                write_tensors(path, {name: torch.from_numpy(array)})
            return array
        tensors = read_tensors(path)
        if name not in tensors:
            raise BadInput(f"{path}: {name} is missing")
        return tensors[name].numpy()
