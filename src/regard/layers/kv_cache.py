"""Key/value cache: the keys and values of earlier tokens, for decoding step by step.

Each layer has one fixed buffer of rows × capacity, of which attention reads a slice.
``select_rows`` reorders rows in place; fewer rows shorten the part in use, never the buffer. Rows
may have different lengths: each row's tokens lie at the beginning of its row of the buffer. The
keys and values of a source are computed once, and are not moved while rows only change places
within their sentence.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Protocol, Self, TypeVar

import torch
from torch import Tensor

from regard.core.layout import Layout
from regard.core.sized_cache import SizedCache
from regard.layers.kernels.decode_step import write

MOST_TOKENS = 1 << 20  # of cached layouts: tens of megabytes at most
KeyValues = tuple[Tensor, Tensor, Layout]


class LayerKVCache:
    """Keys and values of one layer: of the earlier tokens of its rows, and of a source.

    ``keys`` is the layout of the buffers while rows differ in length.
    """

    def __init__(self, rows: int, capacity: int):
        self.rows, self.capacity = rows, capacity
        self.past: tuple[Tensor, Tensor] | None = None
        self.source: KeyValues | None = None
        self.keys: Layout | None = None
        self.ragged = False
        self._selected_early_R: Tensor | None = None

    def extend(self, k_THK: Tensor, v_THK: Tensor, layout: Layout) -> KeyValues:
        """Write new keys and values at their positions; return all keys and values of the rows.

        Three cases: every row gets the same number of tokens, which follow the cached ones
        (``layout.start``); every row gets one token at its own position; or rows get whole prompts
        of different lengths.
        """
        if layout.start is None and self.keys is not None:
            return self._extend_each(k_THK, v_THK, self.keys)
        if not layout.even and layout.start == 0:
            return self._write_prompts(k_THK, v_THK, layout)
        if layout.start is None or not layout.full:
            raise ValueError("a cache grows by full rows, whose positions follow each other")
        length = layout.start + layout.longest
        buffers = self._buffers(k_THK, v_THK, length)
        for buffer, new in zip(buffers, (k_THK, v_THK), strict=True):
            buffer[: self.rows, layout.start : length] = layout.pad(new)
        k, v = (buffer[: self.rows, :length] for buffer in buffers)
        return k, v, shared_rectangle(self.rows, length, str(k.device), padded=True)

    def _extend_each(self, k_RHK: Tensor, v_RHK: Tensor, keys: Layout) -> KeyValues:
        """Append one token to every row, at the row's own position."""
        buffers = self._buffers(k_RHK, v_RHK, keys.longest)
        k, v = (buffer[: self.rows] for buffer in buffers)
        write(k, v, k_RHK, v_RHK, keys.lengths_B.long() - 1)
        return k[:, : keys.longest], v[:, : keys.longest], keys

    def _write_prompts(self, k_THK: Tensor, v_THK: Tensor, layout: Layout) -> KeyValues:
        """Write the first tokens of rows of different lengths; they attend to each other only."""
        self.ragged = True
        buffers = self._buffers(k_THK, v_THK, layout.longest)
        for buffer, new in zip(buffers, (k_THK, v_THK), strict=True):
            buffer[layout.rows_T, layout.positions_T] = new
        return k_THK, v_THK, layout

    def _buffers(self, k_THK: Tensor, v_THK: Tensor, length: int) -> tuple[Tensor, Tensor]:
        if length > self.capacity:
            raise ValueError(f"a cache for {self.capacity} positions cannot hold {length}")
        if self.past is None:
            k, v = (self._buffer(new, self.rows, new.shape[1:]) for new in (k_THK, v_THK))
            self.past = (k, v)
        return self.past

    def _buffer(self, like: Tensor, rows: int, shape: Sequence[int]) -> Tensor:
        """New buffer; zeros for ragged rows, as attention reads masked positions."""
        make = like.new_zeros if self.ragged else like.new_empty
        return make(rows, self.capacity, *shape)

    def store_source(self, k_THK: Tensor, v_THK: Tensor, layout: Layout) -> KeyValues:
        """Store a source's keys and values, padded so that its rows can be selected."""
        lengths_B = None if layout.full else layout.lengths_B
        keys = _padded(layout.longest, layout.rows, lengths_B, k_THK.device)
        self.source = (layout.pad(k_THK), layout.pad(v_THK), keys)
        if self._selected_early_R is not None:
            self.select_source_rows(self._selected_early_R)
        return self.source

    def select_rows(self, index_R: Tensor, length: int) -> None:
        """Copy row ``index_R[i]`` of the past to row i, for each i."""
        if self.past is not None:
            k, v = (self._selected(buffer, index_R, length) for buffer in self.past)
            self.past = (k, v)
        self.rows = len(index_R)

    def _selected(self, buffer: Tensor, index_R: Tensor, length: int) -> Tensor:
        """Buffer with rows selected by index, in place unless it has fewer rows than the index.

        Only rows that change are moved.
        """
        if len(index_R) > len(buffer):
            grown = self._buffer(buffer, len(index_R), buffer.shape[2:])
            grown[:, :length] = buffer[index_R, :length]
            return grown
        moved_R = (index_R != torch.arange(len(index_R), device=index_R.device)).nonzero()[:, 0]
        buffer[moved_R, :length] = buffer[index_R[moved_R], :length]
        return buffer

    def join(self, other: "LayerKVCache", length: int, other_length: int) -> None:
        """Append the rows of another cache; both counts are of positions in use.

        Buffers are doubled if they are too small, so that most rows are copied once.
        """
        if self.source is not None or other.source is not None:
            raise ValueError("caches with a source cannot be joined")
        rows, capacity = self.rows + other.rows, max(self.capacity, other.capacity)
        pairs = zip(self.past or (None, None), other.past or (None, None), strict=True)
        if self.past is not None or other.past is not None:
            k, v = (
                self._joined(mine, theirs, rows, capacity, length, other_length)
                for mine, theirs in pairs
            )
            self.past = (k, v)
        self.rows, self.capacity, self.ragged = rows, capacity, True
        self._selected_early_R = None

    def _joined(
        self,
        mine: Tensor | None,
        theirs: Tensor | None,
        rows: int,
        capacity: int,
        length: int,
        other_length: int,
    ) -> Tensor:
        """Buffer with the rows of both caches, and zeros after the end of appended rows."""
        like = theirs if mine is None else mine
        assert like is not None
        if mine is None or len(mine) < rows or mine.shape[1] < capacity or not self.ragged:
            grown = like.new_zeros(_power(rows), capacity, *like.shape[2:])
            if mine is not None:
                grown[: self.rows, :length] = mine[: self.rows, :length]
            mine = grown
        mine[self.rows : rows] = 0
        if theirs is not None:
            mine[self.rows : rows, :other_length] = theirs[: rows - self.rows, :other_length]
        return mine

    def select_source_rows(self, index_R: Tensor) -> None:
        """Select rows of the source, truncated to the longest of them."""
        if self.source is None:  # before the first step
            early_R = self._selected_early_R
            self._selected_early_R = index_R if early_R is None else early_R[index_R]
            return
        k, v, keys = self.source
        lengths_B = keys.lengths_B[index_R]
        longest = int(lengths_B.max()) if len(index_R) else 0
        selected = _padded(longest, len(index_R), lengths_B, index_R.device)
        self.source = (k[index_R, :longest], v[index_R, :longest], selected)


class KVCache:
    """Cache of all layers of a stack; ``length`` is the length of its longest row."""

    joins = True  # whether rows of another cache can be appended

    def __init__(self, rows: int, capacity: int, depth: int):
        self.layers = [LayerKVCache(rows, capacity) for _ in range(depth)]
        self.rows, self.capacity, self.length = rows, capacity, 0
        self._behind_R: Tensor | None = None  # ``length`` minus the length of each row, if any > 0
        self._source_rows = list(range(rows))

    def under(self, number: int) -> LayerKVCache:
        """Return the cache of one layer."""
        return self.layers[number]

    def next_layout(self, device: torch.device) -> Layout:
        """Return the layout of one more token in every row."""
        if self._behind_R is None:
            return shared_rectangle(self.rows, 1, str(device), start=self.length)
        positions_R = self.length - self._behind_R
        keys = Layout.rectangle(
            self.rows, self.length + 1, device, lengths_B=positions_R.int() + 1, padded=True
        )
        for layer in self.layers:
            layer.keys = keys
        step = shared_rectangle(self.rows, 1, str(device))
        return replace(step, positions_T=positions_R, start=None)

    def advance(self, layout: Layout) -> None:
        """Count the tokens of ``layout``, which all layers have cached."""
        if layout.full:
            self.length += layout.longest
        else:
            self._set_lengths(layout.lengths_B.long())

    def select_rows(self, index_R: Tensor) -> None:
        """Drop, repeat or reorder rows: row i becomes a copy of row ``index_R[i]``."""
        index = index_R.tolist()
        if index == list(range(self.rows)):
            return
        for layer in self.layers:
            layer.select_rows(index_R, self.length)
        source_rows = [self._source_rows[i] for i in index]
        if source_rows != self._source_rows:
            for layer in self.layers:
                layer.select_source_rows(index_R)
        self.rows, self._source_rows = len(index), source_rows
        if self._behind_R is not None:
            self._set_lengths(self.length - self._behind_R[index_R])

    def join(self, other: "KVCache", device: torch.device) -> None:
        """Append the rows of another cache of the same stack, of any lengths."""
        lengths_R = torch.cat([self._lengths(device), other._lengths(device)])
        for layer, joined in zip(self.layers, other.layers, strict=True):
            layer.join(joined, self.length, other.length)
        self.rows, self.capacity = self.rows + other.rows, max(self.capacity, other.capacity)
        self._source_rows = list(range(self.rows))
        self._set_lengths(lengths_R)

    def _lengths(self, device: torch.device) -> Tensor:
        if self._behind_R is None:
            return torch.full((self.rows,), self.length, device=device)
        return self.length - self._behind_R

    def _set_lengths(self, lengths_R: Tensor) -> None:
        self.length = int(lengths_R.max()) if len(lengths_R) else 0
        behind_R = self.length - lengths_R
        self._behind_R = behind_R if behind_R.any() else None


class PromptCache:
    """Cache that passes the keys and values of prompts to ``write(layer, k_THK, v_THK, layout)``.

    Static caches use it, as ``extend`` does not fill their buffers. Prompts attend to themselves,
    and to the source.
    """

    source = None

    def __init__(self, write: Callable[..., None]):
        self.write = write

    def under(self, number: int) -> "PromptCache":
        """Return the cache of one layer."""
        return PromptCache(partial(self.write, number))

    def extend(self, k_THK: Tensor, v_THK: Tensor, layout: Layout) -> KeyValues:
        """Pass the prompts' keys and values to ``write``."""
        self.write(k_THK, v_THK, layout)
        return k_THK, v_THK, layout

    def store_source(self, k_THK: Tensor, v_THK: Tensor, layout: Layout) -> KeyValues:
        """Return keys and values without storing them."""
        return k_THK, v_THK, layout

    def advance(self, layout: Layout) -> None:
        """Do nothing: the cache that is written to counts tokens."""


class DecoderState(Protocol):
    """State of a recurrent decoder; each tensor has one row per hypothesis."""

    @property
    def tensors(self) -> Sequence[Tensor]: ...
    def rows(self, index: Tensor) -> Self: ...


State = TypeVar("State", bound=DecoderState)


class RNNState(KVCache):
    """Cache of a recurrent decoder: its ``current`` state between two steps."""

    joins = False

    def __init__(self, rows: int, capacity: int):
        super().__init__(rows, capacity, depth=1)
        self.current: Any = None
        self._selected_early_R: Tensor | None = None

    def start(self, state: State) -> State:
        """Set the state before the first step, with one row per source."""
        early_R = self._selected_early_R
        self.current = state = state if early_R is None else state.rows(early_R)
        return state

    def select_rows(self, index_R: Tensor) -> None:
        super().select_rows(index_R)
        if self.current is None:  # before the first step
            early_R = self._selected_early_R
            self._selected_early_R = index_R if early_R is None else early_R[index_R]
        else:
            self.current = self.current.rows(index_R)


class PromptRNNState(RNNState):
    """Cache that passes the state after the last token of the prompts to ``write``."""

    def __init__(self, rows: int, write: Callable[[DecoderState], None]):
        super().__init__(rows, 0)
        self.write = write

    def advance(self, layout: Layout) -> None:
        self.write(self.current)


def shared_rectangle(
    rows: int, length: int, device: str, *, start: int = 0, padded: bool = False
) -> Layout:
    """Cached layout of full rows, shared by layers and by batches of the same shape."""
    return _rectangles(rows, length, device, start, padded)


def _rectangle(rows: int, length: int, device: str, start: int, padded: bool) -> Layout:
    with torch.inference_mode(False):
        return Layout.rectangle(rows, length, device, start=start, padded=padded)


_rectangles = SizedCache(_rectangle, lambda rows, length, *_: rows * length, MOST_TOKENS)


def _power(rows: int) -> int:
    """The least power of 2 that is not below ``rows``."""
    return 1 << (rows - 1).bit_length()


def _padded(longest: int, rows: int, lengths_B: Tensor | None, device: torch.device) -> Layout:
    """Layout of the rows of a source; without lengths if all are equal, so that no mask is used."""
    if lengths_B is not None and device.type == "cpu" and bool((lengths_B == longest).all()):
        lengths_B = None
    return Layout.rectangle(rows, longest, device, lengths_B=lengths_B, padded=True)
