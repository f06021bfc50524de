"""Key/value memory: what a decoder has already seen, handed in at every step.

One fixed buffer of rows × capacity per layer. ``pick`` reorders rows in place; rows that leave make
the used part shorter, never the buffer. The keys and values of a source are computed once, and
stay where they are while a beam only reorders within its sentence.
"""

from torch import Tensor

from regard.ground.layout import Layout

Kept = tuple[Tensor, Tensor, Layout]


class LayerMemory:
    """Keys and values that one layer has seen: of its own past, and of a source."""

    def __init__(self, rows: int, capacity: int):
        self.rows, self.capacity = rows, capacity
        self.past: tuple[Tensor, Tensor] | None = None
        self.source: Kept | None = None
        self._picked_early_R: Tensor | None = None

    def extend(self, k_THK: Tensor, v_THK: Tensor, layout: Layout) -> Kept:
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
        keys = Layout.rectangle(self.rows, reach, k_THK.device)
        k, v = (keys.pack(buffer[: self.rows, :reach]) for buffer in self.past)
        return k, v, keys

    def keep_source(self, k_THK: Tensor, v_THK: Tensor, layout: Layout) -> Kept:
        """Keep a source's keys and values, padded so that its rows can be picked."""
        keys = Layout.rectangle(
            layout.rows,
            layout.longest,
            k_THK.device,
            lengths_B=None if layout.full else layout.lengths_B,
        )
        k, v = (keys.pack(layout.pad(x)) for x in (k_THK, v_THK))
        self.source = (k, v, keys)
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
        *kept, keys = self.source
        lengths_B = keys.lengths_B[index_R]
        longest = int(lengths_B.max()) if len(index_R) else 0
        picked = Layout.rectangle(len(index_R), longest, index_R.device, lengths_B=lengths_B)
        k, v = (picked.pack(keys.pad(x)[index_R, :longest]) for x in kept)
        self.source = (k, v, picked)


class Memory:
    """The memory of all layers of a stack."""

    def __init__(self, rows: int, capacity: int, depth: int):
        self.layers = [LayerMemory(rows, capacity) for _ in range(depth)]
        self.rows, self.reach = rows, 0
        self._source_rows = list(range(rows))

    def under(self, number: int) -> LayerMemory:
        """The part that belongs to one layer."""
        return self.layers[number]

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


def _picked(buffer: Tensor, index_R: Tensor, reach: int) -> Tensor:
    """Rows by index, in place unless there are more of them than the buffer has room for."""
    picked = buffer[index_R, :reach]
    if len(index_R) > len(buffer):
        buffer = buffer.new_empty(len(index_R), *buffer.shape[1:])
    buffer[: len(index_R), :reach] = picked
    return buffer
