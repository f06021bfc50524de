"""Data of a training run: a dataset of training examples, and development examples."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import torch

from regard.core.batch import Batch, BatchLimits
from regard.core.errors import BadInput
from regard.data.batches.packing import inference_batches
from regard.data.batches.sampler import BatchSampler, Collator, Dataset, shuffled
from regard.data.readers.fields import DropCounts

Item = TypeVar("Item")

SPLIT_KEY = (0, 0)  # what is held out is the same for every seed


class ProcessRank(Protocol):
    """Rank of this process among several, and its device."""

    @property
    def rank(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def device(self) -> torch.device: ...


@dataclass(frozen=True)
class Batching:
    """Limits, seed and order of training batches; ``mixed``: not sorted by length."""

    limits: BatchLimits
    seed: int
    mixed: bool = False


@dataclass(frozen=True, eq=False, kw_only=True)
class TrainingData(Generic[Item]):
    """Training examples and encoded development examples; ``sizes`` count the examples read.

    ``dev_examples`` are the development examples before encoding, ``dropped`` counts bad examples.
    ``long_texts`` says how many training texts are longer than a row; empty: none.
    If ``dev_streams`` is not 0, ``dev`` holds the chunks of that many streams, in order.
    """

    batching: Batching
    train: Dataset[Item]
    dev: Sequence[Item]
    sizes: dict[str, int]
    dropped: DropCounts = field(default_factory=DropCounts)
    dev_examples: Sequence[Any] = ()
    dev_streams: int = 0
    long_texts: str = ""

    @property
    def remarks(self) -> tuple[str, ...]:
        """What is printed at the start of a run about the training examples."""
        return self.train.remarks

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the training examples."""
        return self.train.fingerprint

    def sampler(self, objective: Collator[Item]) -> BatchSampler[Item]:
        """Endless batches of training examples."""
        how = self.batching
        return self.train.sampler(objective, how.limits, how.seed, how.mixed, self.dropped)

    def dev_batches(self, objective: Collator[Item], processes: ProcessRank) -> Iterator[Batch]:
        """Development batches of this process; all processes together read every example once."""
        if self.dev_streams:
            own = self.own_streams(processes)
            starts = range(0, len(self.dev), self.dev_streams) if own else ()
            batches = [[start + i for i in own] for start in starts]  # the next chunk of each
        else:
            lengths = np.array([objective.length(example) for example in self.dev])
            tokens, rows = self.batching.limits.tokens, self.batching.limits.rows
            every = inference_batches(lengths, BatchLimits(tokens, rows, tokens))
            batches = every[processes.rank :: processes.size]
        for indices in batches:
            examples = objective.gather([self.dev[i] for i in indices])
            yield objective.collate(examples).to(processes.device)

    def own_streams(self, processes: ProcessRank) -> range:
        """The development streams that this process reads."""
        return range(self.dev_streams)[processes.rank :: processes.size]


def held_out_indices(
    count: int, held_out: int, labels: Sequence[Sequence[str]] = ()
) -> tuple[np.ndarray, np.ndarray]:
    """Indices of the training examples and of the held-out examples, in random order.

    With the ``labels`` of each example, one example at least of every label stays in training.
    """
    if held_out >= count:
        raise BadInput(f"data.dev.held_out: {held_out:,} of {count:,} leaves no training examples")
    order_N = shuffled(np.arange(count), count, SPLIT_KEY)
    if not labels:
        return order_N[held_out:], order_N[:held_out]
    left = Counter(chain.from_iterable(map(set, labels)))
    chosen_N = np.zeros(count, dtype=bool)  # in random order
    chosen = 0
    for position, index in enumerate(order_N):
        if chosen == held_out:
            break
        own = {*labels[index]}
        if all(left[label] > 1 for label in own):
            left.subtract(own)
            chosen_N[position], chosen = True, chosen + 1
    if chosen < held_out:
        fault = f"{held_out:,} of {count:,} leaves labels without a training example"
        remedy = f"hold out {chosen:,} at most" if chosen else "each label needs two examples"
        raise BadInput(f"data.dev.held_out: {fault}; {remedy}, or name a development file")
    return order_N[~chosen_N], order_N[chosen_N]


def split_held_out(
    examples: Sequence[Item], held_out: int, labels: Sequence[Sequence[str]] = ()
) -> tuple[list[Item], list[Item]]:
    """Examples to train on, and those held out; of the ``labels`` of examples, all stay."""
    train_N, dev_N = held_out_indices(len(examples), held_out, labels)
    return [examples[i] for i in train_N], [examples[i] for i in dev_N]
