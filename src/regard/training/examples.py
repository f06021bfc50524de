"""The examples of a recipe as ids, tokenised once: to learn from, and to choose by."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import nn

from regard.data.packing import inference_batches
from regard.data.sampler import Sampler, shuffled
from regard.data.shards import TokenShardPair
from regard.data.sources import DropCounts, Source, read_pairs
from regard.data.tokenize import store_pair_texts, tokenize_pairs
from regard.ground.batch import Batch, BatchLimits
from regard.ground.errors import BadInput
from regard.text.labels import LabelSet
from regard.training.distributed import World

SPLIT = (0, 0)  # the key of what is held out: the same for every seed


def shared_out(
    examples: Sequence[Any], objective: Any, recipe: Any, world: World
) -> Iterator[Batch]:
    """My share of some examples, each once, nothing left out."""
    lengths = np.array([objective.length(one) for one in examples])
    limits = recipe.batches
    batches = inference_batches(lengths, BatchLimits(limits.tokens, limits.rows, limits.tokens))
    for chosen in batches[world.rank :: world.size]:
        yield objective.collate([examples[i] for i in chosen]).to(world.device)


def mean_likelihood(
    objective: Any, batches: Iterable[Batch], model: nn.Module, world: World
) -> float:
    """The negative log-likelihood of all ranks' batches together."""
    sums = torch.zeros(2, dtype=torch.float64, device=world.device)
    with torch.inference_mode():
        for batch in batches:
            sums[0] += objective(model, batch)[1]
            sums[1] += batch.weight
    total, weight = world.all_reduce(sums).tolist()
    return total / weight


class Side(Protocol):
    """What is asked of either side of an example: a vocabulary, or labels."""

    def __len__(self) -> int: ...

    @property
    def fingerprint(self) -> str: ...

    def encode_all(self, texts: list[str]) -> list[list[int]]: ...
    def encode_dropped(self, text: str, rate: float, key: tuple[int, ...]) -> list[int]: ...


class Examples:
    """Pairs of ids; training text is cut anew each epoch if the recipe drops merges."""

    def __init__(
        self,
        recipe: Any,
        sides: tuple[Side, Side],
        labels: LabelSet | None,
        train: Source,
        root: Path,
        store: Path,
        skip_bad: bool,
    ):
        self.recipe, self.sides, self.train, self.store = recipe, sides, train, store
        self.labels = labels
        self.dropped = DropCounts()
        self.options: dict[str, Any] = {
            "longest_characters": recipe.data.longest_characters,
            "dropped": self.dropped if skip_bad else None,
        }
        if recipe.text.dropout:
            self.texts = store_pair_texts(store, "train", train, **self.options)
            self.rows: Any = self.texts
        else:
            self.rows = self._tokenised("train", train)
        self.held_N, self.kept_N = self._split(recipe.data.dev.held_out)
        self.dev: Any  # examples by number
        if self.held_N is None:
            self.dev_source = recipe.data.dev.under(root)
            self.dev = self._tokenised("dev", self.dev_source)
        else:
            self.dev = self._coded([self.rows[i] for i in self.held_N])

    @property
    def mark(self) -> str:
        """What the training data is, in short: a resumed run says if it has changed."""
        return f"{len(self.rows)} pairs, {self.rows.checksum:08x}"

    @property
    def sizes(self) -> dict[str, int]:
        """How many there are to learn from, and to choose by."""
        train = self.rows if self.kept_N is None else self.kept_N
        return {"train": len(train), "dev": len(self.dev)}

    def sampler(self, objective: Any) -> Sampler:
        """Batches without end."""
        limits = self.recipe.batches
        budget = BatchLimits(limits.tokens, limits.rows, limits.longest)
        count = len(self.rows) if self.kept_N is None else len(self.kept_N)
        return Sampler(
            self._read,
            objective.length,
            count,
            budget,
            self.recipe.train.seed,
            mixed=limits.mixed,
            dropped=self.dropped,
        )

    def dev_batches(self, objective: Any, world: World) -> Iterator[Batch]:
        """My share of the development set, each example once, nothing left out."""
        return shared_out(self.dev, objective, self.recipe, world)

    def second_sides(self) -> list[int]:
        """Of every example the first id of its second side: the class, where that is one."""
        if self.recipe.text.dropout:
            return [ids[0] for ids in self.sides[1].encode_all(list(self.texts.target))]
        return [int(ids[0]) for ids in self.rows.target]

    def dev_texts(self, count: int) -> list[tuple[str, str]]:
        """The first of the development set, as text."""
        skip = None if self.options["dropped"] is None else DropCounts()
        longest = self.recipe.data.longest_characters
        source = self.dev_source if self.held_N is None else self.train
        pairs = [(one, two) for _, one, two in read_pairs(source, longest, skip)]
        chosen = range(len(pairs)) if self.held_N is None else self.held_N
        return [pairs[i] for i in chosen[:count]]

    def _split(self, held_out: int | None) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Which rows are held out, and which are left to learn from."""
        if held_out is None:
            return None, None
        count = len(self.rows)
        if held_out >= count:
            raise BadInput(f"data.dev.held_out: {held_out:,} of {count:,} leaves nothing to learn")
        order_N = shuffled(np.arange(count), count, SPLIT)
        return order_N[:held_out], order_N[held_out:]

    def _tokenised(self, name: str, source: Source) -> TokenShardPair:
        first, second = self.sides
        return tokenize_pairs(
            self.store,
            name,
            source,
            first.encode_all,
            second.encode_all,
            vocab=max(len(first), len(second)),
            fingerprint=f"{first.fingerprint} {second.fingerprint}",
            **self.options,
        )

    def _coded(self, pairs: Sequence[Any]) -> Sequence[Any]:
        """Rows that were kept as text, in ids."""
        if not self.recipe.text.dropout:
            return pairs
        texts = map(list, zip(*pairs, strict=True))
        coded = (side.encode_all(one) for side, one in zip(self.sides, texts, strict=True))
        return list(zip(*coded, strict=True))

    def _read(self, epoch: int, indices: np.ndarray) -> Sequence[Any]:
        chosen = indices if self.kept_N is None else self.kept_N[indices]
        if not self.recipe.text.dropout:
            return [self.rows[i] for i in chosen]
        return [self._drawn(epoch, int(index)) for index in chosen]

    def _drawn(self, epoch: int, index: int) -> tuple[list[int], ...]:
        rate, key = self.recipe.text.dropout, (self.recipe.train.seed, epoch, index)
        return tuple(
            side.encode_dropped(text, rate, (*key, number))
            for number, (side, text) in enumerate(zip(self.sides, self.texts[index], strict=True))
        )
