"""Key/value memory: what a decoder has already seen, handed in at every step.

One fixed buffer of rows × capacity per layer, of which attention reads a slice. ``pick`` reorders
rows in place; rows that leave make the used part shorter, never the buffer. The keys and values of
a source are computed once, and stay where they are while a beam only reorders within its sentence.
"""

from functools import lru_cache
from typing import Any, Protocol

import torch
from torch import Tensor

from regard.ground.layout import Layout

KeyValues = tuple[Tensor, Tensor, Layout]


class LayerKVCache:
    """Keys and values that one layer has seen: of its own past, and of a source."""

    def __init__(self, rows: int, capacity: int):
        self.rows, self.capacity = rows, capacity
        self.past: tuple[Tensor, Tensor] | None = None
        self.source: KeyValues | None = None
        self._picked_early_R: Tensor | None = None

    def extend(self, k_THK: Tensor, v_THK: Tensor, layout: Layout) -> KeyValues:
        """Write new keys and values at their positions; answer with all that are there."""
        if layout.start is None or not layout.full:
            raise ValueError("a memory grows by full rows, whose positions follow each other")
        reach = layout.start + layout.longest
        if reach > self.capacity:
            raise ValueError(f"a memory of {self.capacity} positions was asked to hold {reach}")
        if self.past is None:
            k_buffer, v_buffer = (
                new.new_empty(self.rows, self.capacity, *new.shape[1:]) for new in (k_THK, v_THK)
            )
            self.past = (k_buffer, v_buffer)
        for buffer, new in zip(self.past, (k_THK, v_THK), strict=True):
            buffer[: self.rows, layout.start : reach] = layout.pad(new)
        k, v = (buffer[: self.rows, :reach] for buffer in self.past)
        return k, v, shared_rectangle(self.rows, reach, str(k.device), padded=True)

    def store_source(self, k_THK: Tensor, v_THK: Tensor, layout: Layout) -> KeyValues:
        """Keep a source's keys and values, padded so that its rows can be picked."""
        lengths_B = None if layout.full else layout.lengths_B
        keys = _padded(layout.longest, layout.rows, lengths_B, k_THK.device)
        self.source = (layout.pad(k_THK), layout.pad(v_THK), keys)
        if self._picked_early_R is not None:
            self.pick_source(self._picked_early_R)
        return self.source

    def pick(self, index_R: Tensor, reach: int) -> None:
        """Row i of the past becomes what row ``index_R[i]`` was."""
        if self.past is not None:
            k, v = (_picked(buffer, index_R, reach) for buffer in self.past)
            self.past = (k, v)
        self.rows = len(index_R)

    def pick_source(self, index_R: Tensor) -> None:
        """The same for the source, cut to its longest row."""
        if self.source is None:  # no step was made yet
            early_R = self._picked_early_R
            self._picked_early_R = index_R if early_R is None else early_R[index_R]
            return
        k, v, keys = self.source
        lengths_B = keys.lengths_B[index_R]
        longest = int(lengths_B.max()) if len(index_R) else 0
        picked = _padded(longest, len(index_R), lengths_B, index_R.device)
        self.source = (k[index_R, :longest], v[index_R, :longest], picked)


class KVCache:
    """The memory of all layers of a stack."""

    def __init__(self, rows: int, capacity: int, depth: int):
        self.layers = [LayerKVCache(rows, capacity) for _ in range(depth)]
        self.rows, self.capacity, self.reach = rows, capacity, 0
        self._source_rows = list(range(rows))

    def under(self, number: int) -> LayerKVCache:
        """The part that belongs to one layer."""
        return self.layers[number]

    def advance(self, layout: Layout) -> None:
        """All layers have taken in the tokens of ``layout``."""
        self.reach += layout.longest

    def pick(self, index_R: Tensor) -> None:
        """Keep, repeat, reorder or drop rows."""
        index = index_R.tolist()
        if index == list(range(self.rows)):
            return
        for layer in self.layers:
            layer.pick(index_R, self.reach)
        source_rows = [self._source_rows[i] for i in index]
        if source_rows != self._source_rows:
            for layer in self.layers:
                layer.pick_source(index_R)
        self.rows, self._source_rows = len(index), source_rows


class RowSelectable(Protocol):
    """Anything that has rows which can be picked."""

    def rows(self, index_R: Tensor) -> "RowSelectable":
        """Row i of the answer is row ``index_R[i]``."""


class RNNState(KVCache):
    """The memory of a recurrent decoder: what it carries ``now``, from one step to the next."""

    def __init__(self, rows: int, capacity: int):
        super().__init__(rows, capacity, depth=1)
        self.now: Any = None
        self._early_R: Tensor | None = None

    def begin(self, now: RowSelectable) -> Any:
        """What is there before the first step, a row for each source."""
        self.now = now if self._early_R is None else now.rows(self._early_R)
        return self.now

    def pick(self, index_R: Tensor) -> None:
        """Keep, repeat, reorder or drop rows."""
        super().pick(index_R)
        if self.now is None:  # no step was made yet
            early_R = self._early_R
            self._early_R = index_R if early_R is None else early_R[index_R]
        else:
            self.now = self.now.rows(index_R)


@lru_cache(maxsize=4_096)
def shared_rectangle(
    rows: int, length: int, device: str, *, start: int = 0, padded: bool = False
) -> Layout:
    """Full rows: the same layout for every layer, and for every batch of that shape."""
    with torch.inference_mode(False):
        return Layout.rectangle(rows, length, device, start=start, padded=padded)


def _padded(longest: int, rows: int, lengths_B: Tensor | None, device: torch.device) -> Layout:
    """Rows of a source; where they are of one length no key is dead, and no mask is needed."""
    if lengths_B is not None and device.type == "cpu" and bool((lengths_B == longest).all()):
        lengths_B = None
    return Layout.rectangle(rows, longest, device, lengths_B=lengths_B, padded=True)


def _picked(buffer: Tensor, index_R: Tensor, reach: int) -> Tensor:
    """Rows by index, in place unless there are more of them than the buffer has room for.

    Only rows that change are moved.
    """
    if len(index_R) > len(buffer):
        grown = buffer.new_empty(len(index_R), *buffer.shape[1:])
        grown[:, :reach] = buffer[index_R, :reach]
        return grown
    moved_R = (index_R != torch.arange(len(index_R), device=index_R.device)).nonzero()[:, 0]
    buffer[moved_R, :reach] = buffer[index_R[moved_R], :reach]
    return buffer
