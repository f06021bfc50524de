"""Ragged rows with free shapes (CPU): buckets of neighbouring rows, padded within each bucket.

Neighbouring rows share a bucket as long as their padding costs less than another call, so that rows
sorted by length need almost no padding.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from regard.ground.layout import Layout
from regard.ground.sized_cache import SizedCache
from regard.parts.kernels.call import AttentionCall, fused_rows

# One more call to the kernel costs about as much as this many padded query-key pairs.
CALL = 1024
MOST_TOKENS = 1 << 17  # of buckets that are kept: some megabytes


def fits(call: AttentionCall, q_THK: Tensor, v_THK: Tensor) -> bool:
    """Packed rows whose lengths are known on the host; the mask is the same within a bucket."""
    known = call.queries.lengths is not None and call.keys.lengths is not None
    return known and call.aligned and not call.keys.padded


def run(call: AttentionCall, q_THK: Tensor, k_THK: Tensor, v_THK: Tensor) -> Tensor:
    """Attention bucket by bucket."""
    queries, keys = call.queries, call.keys
    assert queries.lengths is not None and keys.lengths is not None
    buckets = cut_into_buckets(queries.lengths, keys.lengths, str(q_THK.device))
    q_buckets = q_THK.split([g.queries.tokens for g in buckets])
    sizes = [g.keys.tokens for g in buckets]
    attended = [
        fused_rows(call, g.queries, g.keys, q, k, v)
        for g, q, k, v in zip(
            buckets, q_buckets, k_THK.split(sizes), v_THK.split(sizes), strict=True
        )
    ]
    if not attended:  # no rows: an empty tensor through which gradients flow
        return torch.einsum("thk,shk,shv->thv", q_THK, k_THK, v_THK)
    return torch.cat(attended)


class RowBucket(NamedTuple):
    """Neighbouring rows with layouts of their own, which are even if their lengths agree."""

    queries: Layout
    keys: Layout


def _cut_into_buckets(
    query_lengths: tuple[int, ...], key_lengths: tuple[int, ...], device: str = "cpu"
) -> tuple[RowBucket, ...]:
    """Cut the rows, in order, into buckets whose padding costs less than another call."""
    buckets: list[RowBucket] = []
    rows: list[tuple[int, int]] = []
    longest_q = longest_k = real = 0
    for q, k in zip(query_lengths, key_lengths, strict=True):
        padded = (len(rows) + 1) * max(longest_q, q) * max(longest_k, k)
        alike = not rows or (k == 0) == (
            rows[0][1] == 0
        )  # rows without keys have buckets of their own
        if not alike or padded - (real + q * k) > CALL:
            buckets.append(_as_bucket(rows, device))
            rows, longest_q, longest_k, real = [], 0, 0, 0
        rows.append((q, k))
        longest_q, longest_k, real = max(longest_q, q), max(longest_k, k), real + q * k
    return (*buckets, _as_bucket(rows, device)) if rows else tuple(buckets)


# The layers of a pass share the buckets; the next batch has lengths of its own.
cut_into_buckets = SizedCache(
    _cut_into_buckets, lambda queries, keys, *_: sum(queries) + sum(keys), MOST_TOKENS
)


def _as_bucket(rows: list[tuple[int, int]], device: str) -> RowBucket:
    return RowBucket(*(_as_layout(lengths, device) for lengths in zip(*rows, strict=True)))


def _as_layout(lengths: tuple[int, ...], device: str) -> Layout:
    """A layout for training and inference: its tensors are no inference tensors."""
    with torch.inference_mode(False):
        if len(set(lengths)) == 1:
            return Layout.rectangle(len(lengths), lengths[0], device)
        layout = Layout.ragged(lengths, device)
        _ = layout.slots_T, layout.real_BL, layout.key_bias_BS
        return layout
