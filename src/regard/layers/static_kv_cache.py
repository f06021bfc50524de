"""Key/value cache in fixed buffers, for decoding steps captured as CUDA graphs.

Every row writes its keys into its own row of the buffers. When a beam reorders rows, only the table
of owners is rewritten: it says which row of the buffers holds each earlier token of a row.
"""

import copy
from collections.abc import Iterable
from dataclasses import replace

import torch
from torch import Tensor

from regard.core.layout import Layout
from regard.layers.kernels.decode_step import Angles, write, write_and_attend
from regard.layers.kv_cache import KeyValues, PromptCache


class StaticLayerKVCache:
    """Buffers of one layer: past keys and values (R, S, H, K), and of a source (B, S, H, K)."""

    def __init__(self, cache: "StaticKVCache"):
        self.cache = cache
        self.past: list[Tensor] = []
        self.of_source: list[Tensor] = []

    @property
    def source(self) -> KeyValues:
        """Keys and values of the source."""
        k, v = self.of_source
        return k, v, self.cache.source_keys

    def extend(self, k_RHK: Tensor, v_RHK: Tensor, layout: Layout) -> KeyValues:
        """Write one more key and value in each row; return all keys and values."""
        k, v = self._past(k_RHK, v_RHK)
        write(k, v, k_RHK, v_RHK, self.cache.positions_R)
        return k, v, self.cache.keys

    def attend(
        self,
        q_RHK: Tensor,
        k_RHK: Tensor,
        v_RHK: Tensor,
        scale: float,
        left: int | None = None,
        angles: Angles | None = None,
    ) -> Tensor:
        """``extend``, then attention of each row to its last keys, in one launch."""
        k, v = self._past(k_RHK, v_RHK)
        tables = self.cache.positions_R, self.cache.owners_RS, self.cache.lengths_R
        return write_and_attend(q_RHK, k_RHK, v_RHK, k, v, *tables, scale, left, angles)

    def write_prompts(self, k_THK: Tensor, v_THK: Tensor, layout: Layout) -> None:
        """Write the keys and values of prompts into the first row of each sentence.

        Rows of the layout beyond the sentences are padding. It goes to the last position of a
        row: prompts leave that free, and a step writes it before it is read.
        """
        cache, last = self.cache, self.cache.capacity - 1
        row_T = layout.rows_T * cache.copies
        position_T = layout.positions_T.masked_fill(row_T >= cache.rows, last)
        self.write_tokens(k_THK, v_THK, row_T.clamp(max=cache.rows - 1), position_T)

    def write_tokens(self, k_THK: Tensor, v_THK: Tensor, row_T: Tensor, position_T: Tensor) -> None:
        """Write the key and value of each token into its row of the buffers, at its position."""
        for buffer, new in zip(self._past(k_THK, v_THK), (k_THK, v_THK), strict=True):
            buffer[row_T, position_T] = new

    def write_source(self, k_THK: Tensor, v_THK: Tensor) -> None:
        """Write the keys and values of a source, padded to its buffers' length."""
        cache = self.cache
        if not self.of_source:
            shape = (cache.rows // cache.copies, cache.source_keys.longest)
            self.of_source = [x.new_zeros(*shape, *x.shape[1:]) for x in (k_THK, v_THK)]
        for buffer, new in zip(self.of_source, (k_THK, v_THK), strict=True):
            buffer.copy_(new.view_as(buffer))

    def _past(self, k_THK: Tensor, v_THK: Tensor) -> list[Tensor]:
        if not self.past:
            shape = self.cache.owners_RS.shape
            self.past = [x.new_zeros(*shape, *x.shape[1:]) for x in (k_THK, v_THK)]
        return self.past


class StaticLayerPart(StaticLayerKVCache):
    """First rows of the buffers of a layer without a source."""

    def __init__(self, cache: "StaticKVCache", whole: StaticLayerKVCache):
        super().__init__(cache)
        self.whole = whole

    def _past(self, k_THK: Tensor, v_THK: Tensor) -> list[Tensor]:
        return [buffer[: self.cache.rows] for buffer in self.whole._past(k_THK, v_THK)]


class StaticKVCache:
    """Fixed cache of all layers: ``copies`` rows of ``capacity`` tokens for each of ``sentences``.

    A source has room for ``source_longest`` tokens a sentence (0: no source). The next token of row
    r has position ``positions_R[r]``.
    """

    reads_fixed_prompts = True  # a captured graph can read prompts of a fixed shape

    def __init__(
        self,
        sentences: int,
        copies: int,
        capacity: int,
        source_longest: int,
        depth: int,
        device: torch.device,
    ):
        self.rows, self.copies, self.capacity = sentences * copies, copies, capacity
        self.positions_R = torch.zeros(self.rows, dtype=torch.long, device=device)
        self.own_R = torch.arange(self.rows, dtype=torch.int32, device=device)
        self.lengths_R = torch.ones_like(self.own_R)
        self.owners_RS = torch.zeros(self.rows, capacity, dtype=torch.int32, device=device)
        self.positions_S = torch.arange(capacity, device=device)
        self.keys = _in_buffer(self.owners_RS, self.lengths_R)
        sentence_RS = (self.own_R // copies)[:, None].expand(-1, source_longest)
        self.source_keys = _in_buffer(sentence_RS, torch.ones_like(self.own_R))
        self.queries = _next_tokens(self.positions_R)
        self.layers = [StaticLayerKVCache(self) for _ in range(depth)]

    def first_rows(self, rows: int) -> "StaticKVCache":
        """Cache of the first rows, without a source, in the same buffers."""
        part = copy.copy(self)
        part.rows = rows
        part.positions_R, part.own_R = self.positions_R[:rows], self.own_R[:rows]
        part.lengths_R, part.owners_RS = self.lengths_R[:rows], self.owners_RS[:rows]
        part.keys = _in_buffer(part.owners_RS, part.lengths_R)
        part.queries = _next_tokens(part.positions_R)
        part.layers = [StaticLayerPart(part, layer) for layer in self.layers]
        return part

    def start(self) -> None:
        """Empty all rows."""
        self.positions_R.zero_()
        self.lengths_R.fill_(1)
        self.owners_RS.copy_(self.own_R[:, None].expand_as(self.owners_RS))

    def start_after(self, lengths_B: Tensor) -> None:
        """Start after prompts of these lengths, written into the first row of each sentence."""
        self.positions_R.zero_()
        self.positions_R[: len(lengths_B) * self.copies] = lengths_B.repeat_interleave(self.copies)
        self.lengths_R.copy_(self.positions_R + 1)
        first_R = self.own_R // self.copies * self.copies
        of_prompt_RS = self.positions_S < self.positions_R[:, None]
        torch.where(of_prompt_RS, first_R[:, None], self.own_R[:, None], out=self.owners_RS)

    def for_prompts(self, rows: int) -> PromptCache:
        """Cache for reading prompts, whose keys and values are written here."""
        return PromptCache(lambda number, *keys: self.layers[number].write_prompts(*keys))

    def write_source(self, layers: Iterable[tuple[Tensor, Tensor]], lengths_B: Tensor) -> None:
        """Write the source's keys and values of each layer, and its lengths."""
        for layer, (k_THK, v_THK) in zip(self.layers, layers, strict=True):
            layer.write_source(k_THK, v_THK)
        self.source_keys.lengths_B.copy_(lengths_B.repeat_interleave(self.copies))

    def under(self, number: int) -> StaticLayerKVCache:
        """Cache of one layer."""
        return self.layers[number]

    def advance(self, layout: Layout) -> None:
        """Count one more token in every row; rows that are full stay at their last position."""
        self.positions_R.add_(1).clamp_(max=self.capacity - 1)
        torch.add(self.positions_R, 1, out=self.lengths_R)
        self.forget()

    def forget(self) -> None:
        """Drop cached properties of layouts, whose lengths have changed."""
        self.keys, self.source_keys = replace(self.keys), replace(self.source_keys)

    def select_rows(self, index_R: Tensor) -> None:
        """Give row i the past of row ``index_R[i]``, of the same sentence."""
        self.owners_RS.copy_(self.owners_RS[index_R])
        self.owners_RS.scatter_(1, self.positions_R[:, None], self.own_R[:, None])


def _next_tokens(positions_R: Tensor) -> Layout:
    """Layout of one token in every row, at these positions."""
    rows, device = len(positions_R), positions_R.device
    ones_R = torch.ones(rows, dtype=torch.int32, device=device)
    queries = Layout.rectangle(rows, 1, device, lengths_B=ones_R)
    return replace(queries, positions_T=positions_R, start=None)


def _in_buffer(owners_RS: Tensor, lengths_R: Tensor) -> Layout:
    (rows, longest), device = owners_RS.shape, owners_RS.device
    layout = Layout.rectangle(rows, longest, device, lengths_B=lengths_R, padded=True)
    return replace(layout, owners_BS=owners_RS)
