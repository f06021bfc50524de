"""Examples in memory, as rows: to learn from, and to choose weights by."""

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import chain
from typing import Any

import numpy as np

from regard.data.packing import inference_batches
from regard.data.sampler import Sampler, shuffled
from regard.data.sources import DropCounts
from regard.ground.batch import Batch, BatchLimits, TokenRow
from regard.ground.errors import BadInput
from regard.tasks.task import Processes, TaskRecipe

SPLIT = (0, 0)  # the key of what is held out: the same for every seed


@dataclass(frozen=True, eq=False)
class MemoryDataset:
    """Rows and targets; ``dev_examples`` are those of the development set before they were rows.

    ``sizes`` counts examples, of which a long one becomes several rows.
    """

    recipe: TaskRecipe
    train: Sequence[Any]
    dev: Sequence[Any]
    dev_examples: Sequence[Any]
    dropped: DropCounts
    sizes: dict[str, int]

    @property
    def mark(self) -> str:
        """A short description of the training data: a resumed run says if it has changed."""
        checksum = reduce(lambda sums, one: zlib.crc32(_content(*one), sums), self.train, 0)
        return f"{len(self.train)} rows, {checksum:08x}"

    def sampler(self, objective: Any) -> Sampler:
        """Batches without end."""
        limits = self.recipe.batches
        return Sampler(
            lambda epoch, indices: [self.train[i] for i in indices],
            objective.length,
            len(self.train),
            BatchLimits(limits.tokens, limits.rows, limits.longest),
            self.recipe.train.seed,
            mixed=limits.mixed,
            dropped=self.dropped,
        )

    def dev_batches(self, objective: Any, processes: Processes) -> Iterator[Batch]:
        """My share of the development set, each row once."""
        return share_batches(self.dev, objective, self.recipe, processes)


def share_batches(
    examples: Sequence[Any], objective: Any, recipe: TaskRecipe, processes: Processes
) -> Iterator[Batch]:
    """My share of some examples, each once, nothing left out."""
    lengths = np.array([objective.length(example) for example in examples])
    limits = recipe.batches
    batches = inference_batches(lengths, BatchLimits(limits.tokens, limits.rows, limits.tokens))
    for numbers in batches[processes.rank :: processes.size]:
        yield objective.collate([examples[i] for i in numbers]).to(processes.device)


def split_held_out(examples: Sequence[Any], count: int) -> tuple[list[Any], list[Any]]:
    """Examples to learn from, and ``count`` that are held out: the same for every seed."""
    total = len(examples)
    if count >= total:
        raise BadInput(f"data.dev.held_out: {count:,} of {total:,} leaves nothing to learn")
    order_N = shuffled(np.arange(total), total, SPLIT)
    return [examples[i] for i in order_N[count:]], [examples[i] for i in order_N[:count]]


def _content(rows: TokenRow | Sequence[TokenRow], target: Any) -> bytes:
    """An example as bytes."""
    parts = chain(rows if isinstance(rows, TokenRow) else chain(*rows), [target])
    return b"|".join(np.asarray(part).tobytes() for part in parts)
