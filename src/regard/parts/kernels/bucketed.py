"""Ragged rows where shapes are free (CPU): groups of like length, never padded to the longest row.

Neighbouring rows share a group while the padding they cost stays below the price of another call,
so rows sorted by length run almost without padding.
"""

from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from regard.ground.layout import Layout
from regard.parts.kernels.call import AttentionCall, fused_rows

# One more call to the kernel costs about as much as this many padded query-key pairs.
CALL = 1024


def fits(call: AttentionCall, q_THK: Tensor, v_THK: Tensor) -> bool:
    """Packed rows whose lengths are known on the host; the mask is the same within a bucket."""
    known = call.queries.lengths is not None and call.keys.lengths is not None
    return known and call.aligned and not call.keys.padded


def run(call: AttentionCall, q_THK: Tensor, k_THK: Tensor, v_THK: Tensor) -> Tensor:
    """Attention group by group, each on rows that lie side by side."""
    queries, keys = call.queries, call.keys
    assert queries.lengths is not None and keys.lengths is not None
    groups = cut_into_buckets(queries.lengths, keys.lengths, str(q_THK.device))
    q_groups = q_THK.split([g.queries.tokens for g in groups])
    sizes = [g.keys.tokens for g in groups]
    seen = [
        fused_rows(call, g.queries, g.keys, q, k, v)
        for g, q, k, v in zip(groups, q_groups, k_THK.split(sizes), v_THK.split(sizes), strict=True)
    ]
    if not seen:  # no rows at all: nothing, but nothing that gradients can be asked of
        return torch.einsum("thk,shk,shv->thv", q_THK, k_THK, v_THK)
    return torch.cat(seen)


class RowBucket(NamedTuple):
    """Rows side by side, as layouts of their own; even where their lengths agree."""

    queries: Layout
    keys: Layout


@lru_cache(maxsize=512)
def cut_into_buckets(
    query_lengths: tuple[int, ...], key_lengths: tuple[int, ...], device: str = "cpu"
) -> tuple[RowBucket, ...]:
    """Cut the rows, in order, into groups whose padding is worth a call saved."""
    groups: list[RowBucket] = []
    rows: list[tuple[int, int]] = []
    longest_q = longest_k = real = 0
    for q, k in zip(query_lengths, key_lengths, strict=True):
        padded = (len(rows) + 1) * max(longest_q, q) * max(longest_k, k)
        blind_alike = not rows or (k == 0) == (rows[0][1] == 0)  # rows without keys stay apart
        if not blind_alike or padded - (real + q * k) > CALL:
            groups.append(_as_group(rows, device))
            rows, longest_q, longest_k, real = [], 0, 0, 0
        rows.append((q, k))
        longest_q, longest_k, real = max(longest_q, q), max(longest_k, k), real + q * k
    return (*groups, _as_group(rows, device)) if rows else tuple(groups)


def _as_group(rows: list[tuple[int, int]], device: str) -> RowBucket:
    return RowBucket(*(_as_layout(lengths, device) for lengths in zip(*rows, strict=True)))


def _as_layout(lengths: tuple[int, ...], device: str) -> Layout:
    """A layout that training and inference can share: ordinary tensors, made now."""
    with torch.inference_mode(False):
        if len(set(lengths)) == 1:
            return Layout.rectangle(len(lengths), lengths[0], device)
        layout = Layout.ragged(lengths, device)
        _ = layout.slots_T, layout.real_BL, layout.key_bias_BS
        return layout
