"""A memory that never changes its shape or its place, so that a step on it can be captured.

Every row writes its keys at its own row of the buffers. When a beam reorders, only the table of
owners is rewritten: which buffer row holds each place of a row's past.
"""

from collections.abc import Iterable
from dataclasses import replace

import torch
from torch import Tensor

from regard.ground.layout import Layout
from regard.parts.kernels.decode_step import write
from regard.parts.kv_cache import KeyValues


class StaticLayerKVCache:
    """One layer's buffers: of its own past (R, S, H, K), and of a source (B, S, H, K)."""

    def __init__(self, cache: "StaticKVCache", k_THK: Tensor, v_THK: Tensor):
        self.cache = cache

        def buffers(rows: int, places: int) -> list[Tensor]:
            return [x.new_zeros(rows, places, *x.shape[1:]) for x in (k_THK, v_THK)]

        self.past = buffers(cache.rows, cache.keys.longest)
        self.of_source = buffers(cache.rows // cache.copies, cache.source_keys.longest)

    @property
    def source(self) -> KeyValues:
        """Keys and values of the source."""
        k, v = self.of_source
        return k, v, self.cache.source_keys

    def extend(self, k_THK: Tensor, v_THK: Tensor, layout: Layout) -> KeyValues:
        """Write one more key and value in each row; answer with all that are there."""
        k, v = self.past
        write(k, v, k_THK, v_THK, self.cache.at)
        return k, v, self.cache.keys


class StaticKVCache:
    """``copies`` rows for each of ``sentences``, room for ``capacity`` tokens and ``places``."""

    def __init__(
        self, sentences: int, copies: int, capacity: int, places: int, device: torch.device
    ):
        self.rows, self.copies = sentences * copies, copies
        self.at = torch.zeros(1, dtype=torch.long, device=device)
        self.own_R = torch.arange(self.rows, dtype=torch.int32, device=device)
        self.lengths_R = torch.ones_like(self.own_R)
        self.owners_RS = torch.zeros(self.rows, capacity, dtype=torch.int32, device=device)
        self.keys = _in_buffer(self.owners_RS, self.lengths_R)
        sentence_RS = (self.own_R // copies)[:, None].expand(-1, places)
        self.source_keys = _in_buffer(sentence_RS, torch.ones_like(self.own_R))
        self.queries = Layout(
            rows=self.rows,
            longest=1,
            lengths_B=torch.ones_like(self.own_R),
            offsets=torch.arange(self.rows + 1, dtype=torch.int32, device=device),
            positions_T=self.at.expand(self.rows),
            even=True,
            start=None,
        )
        self.layers: list[StaticLayerKVCache] = []

    def load_source(self, sources: Iterable[tuple[Tensor, Tensor]], lengths_B: Tensor) -> None:
        """Begin anew with what each layer knows of a source, all its places filled."""
        for number, (k_THK, v_THK) in enumerate(sources):
            if number == len(self.layers):
                self.layers.append(StaticLayerKVCache(self, k_THK, v_THK))
            for buffer, new in zip(self.layers[number].of_source, (k_THK, v_THK), strict=True):
                buffer.copy_(new.view_as(buffer))
        self.source_keys.lengths_B.copy_(lengths_B.repeat_interleave(self.copies))
        self.lengths_R.fill_(1)
        self.at.zero_()
        self.owners_RS[:, 0] = self.own_R

    def under(self, number: int) -> StaticLayerKVCache:
        """The part that belongs to one layer."""
        return self.layers[number]

    def advance(self, layout: Layout) -> None:
        """All layers have taken in one more token; what was worked out of the layouts is old."""
        self.at += 1
        self.lengths_R += 1
        self.keys, self.source_keys = replace(self.keys), replace(self.source_keys)

    def pick(self, index_R: Tensor) -> None:
        """Row i's past becomes that of row ``index_R[i]``; what comes next is its own."""
        self.owners_RS.copy_(self.owners_RS[index_R])
        self.owners_RS.index_copy_(1, self.at, self.own_R[:, None])


def _in_buffer(owners_RS: Tensor, lengths_R: Tensor) -> Layout:
    rows, longest = owners_RS.shape
    device = owners_RS.device
    return Layout(
        rows=rows,
        longest=longest,
        lengths_B=lengths_R,
        offsets=torch.arange(rows + 1, dtype=torch.int32, device=device) * longest,
        positions_T=torch.arange(longest, device=device).repeat(rows),
        even=True,
        padded=True,
        owners_BS=owners_RS,
    )
