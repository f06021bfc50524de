"""Ragged rows on a CPU: buckets of neighbouring rows, padded within each bucket.

Neighbouring rows share a bucket as long as their padding costs less than another call, so that rows
sorted by length need almost no padding. Padding changes the order of sums: ``equal_lengths`` turns
it off, and then the numbers of a row do not depend on its neighbours.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

import torch
from torch import Tensor

from regard.core.layout import Layout
from regard.core.sized_cache import SizedCache
from regard.layers.kernels.call import AttentionCall, fused_rows

CALL = 1024  # padded query-key pairs that cost about as much as one more call of the kernel
MOST_TOKENS = 1 << 17  # of cached buckets: some megabytes
_most_padding = ContextVar("_most_padding", default=CALL)
_fewest_tokens = ContextVar("_fewest_tokens", default=0)


@contextmanager
def equal_lengths(fewest_tokens: int = 2) -> Iterator[None]:
    """Only rows of equal lengths share a bucket, in this thread, until the end of the block.

    Pools and heads read one row at a time then: products of a few rows depend on their number. On a
    CPU, rows of fewer than ``fewest_tokens`` are batches of their own.
    """
    padding, tokens = _most_padding.set(0), _fewest_tokens.set(fewest_tokens)
    try:
        yield
    finally:
        _fewest_tokens.reset(tokens)
        _most_padding.reset(padding)


def fewest_tokens(device: torch.device) -> int:
    """The least tokens of a row that may share its products with others."""
    return _fewest_tokens.get() if device.type == "cpu" else 0


def rows_are_alone() -> bool:
    """Whether the numbers of a row are to be those of a batch of that row alone."""
    return not torch.compiler.is_compiling() and _most_padding.get() == 0


def fits(call: AttentionCall, q_THK: Tensor, v_THK: Tensor) -> bool:
    """Whether rows are packed, their lengths known on the host, and masks the same by bucket."""
    known = call.queries.lengths is not None and call.keys.lengths is not None
    return known and call.aligned and not call.keys.padded


def run(call: AttentionCall, q_THK: Tensor, k_THK: Tensor, v_THK: Tensor) -> Tensor:
    """Attention bucket by bucket."""
    queries, keys = call.queries, call.keys
    assert queries.lengths is not None and keys.lengths is not None
    padding = _most_padding.get()
    buckets = cut_into_buckets(queries.lengths, keys.lengths, str(q_THK.device), padding)
    if not buckets:  # no rows: an empty tensor through which gradients flow
        return fused_rows(call, queries, keys, q_THK, k_THK, v_THK)
    q = q_THK.split([bucket.queries.tokens for bucket in buckets])
    k, v = (x.split([bucket.keys.tokens for bucket in buckets]) for x in (k_THK, v_THK))
    parts = zip(buckets, q, k, v, strict=True)
    return torch.cat([fused_rows(call, *bucket, *qkv) for bucket, *qkv in parts])


class RowBucket(NamedTuple):
    """Layouts of neighbouring rows, which are even if their lengths agree."""

    queries: Layout
    keys: Layout


def _cut_into_buckets(
    query_lengths: tuple[int, ...],
    key_lengths: tuple[int, ...],
    device: str = "cpu",
    most_padding: int = CALL,
) -> tuple[RowBucket, ...]:
    """Cut the rows, in order, into buckets with at most ``most_padding`` query-key pairs."""
    buckets: list[RowBucket] = []
    rows: list[tuple[int, int]] = []
    longest_q = longest_k = real = 0
    for q, k in zip(query_lengths, key_lengths, strict=True):
        padded = (len(rows) + 1) * max(longest_q, q) * max(longest_k, k)
        mixed = bool(rows) and (k == 0) != (rows[0][1] == 0)  # rows without keys stay apart
        if mixed or padded - (real + q * k) > most_padding:
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
    """Layout for training and inference: its tensors are not inference tensors."""
    with torch.inference_mode(False):
        if len(set(lengths)) == 1:
            return Layout.rectangle(len(lengths), lengths[0], device)
        layout = Layout.ragged(lengths, device)
        _ = layout.slots_T, layout.real_BL, layout.key_bias_BS
        return layout
