"""XLNet's attention on CUDA, in tiles of queries and keys (Dao et al., 2022).

The score of a query and a key is q·k + its score by distance + its score by segment. In memory are
the scores of every query by distance, and their gradient, but no other table of all pairs.
"""

import torch
from torch import Tensor

from regard.parts.kernels.few_rows import HALVES, jit, triton

if triton is not None:
    import triton.language as tl

SIZES = (16, 32, 64, 128)  # of a head
NEVER = 2**31 - 1  # the order of padding
TILE = {"query_tile": 64, "key_tile": 64, "num_warps": 4, "num_stages": 1}
Gradients = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]


def fits(q: Tensor, k: Tensor) -> bool:
    """Heads of a usual size in half precision on CUDA, if Triton is there."""
    usual = q.shape[-1] in SIZES and q.numel() > 0 and k.numel() > 0
    return triton is not None and usual and q.is_cuda and k.dtype in HALVES


@torch.library.custom_op("regard::relative_attention", mutates_args=())
def attention(
    q_BLHK: Tensor,
    k_BSHK: Tensor,
    v_BSHK: Tensor,
    by_distance_BHLP: Tensor,
    by_segment_2BHL: Tensor,
    queries_3BL: Tensor,
    keys_2BS: Tensor,
    seed: Tensor,
    dropout: float,
) -> tuple[Tensor, Tensor]:
    """The values that each query attends to, (B, L, H, K), and the log of its softmax's sum.

    ``queries`` are (limit, column, segment) of each query and ``keys`` (order, segment) of each
    key. A query attends to keys with an order below its limit. Its scores by distance of all keys
    stand one after another from its column on. The two scores ``by_segment`` are for keys in the
    query's segment, and for others.
    """
    out_BLHK = torch.empty(q_BLHK.shape, dtype=v_BSHK.dtype, device=v_BSHK.device)
    batch, length, heads, _ = q_BLHK.shape
    log_sum_BHL = torch.empty((batch, heads, length), device=v_BSHK.device)
    tensors, sizes = _dense(q_BLHK, k_BSHK, v_BSHK, by_distance_BHLP, by_segment_2BHL)
    grid = triton.cdiv(length, TILE["query_tile"]), batch * heads
    given = *tensors, queries_3BL, keys_2BS, seed
    _forward[grid](*given, out_BLHK, log_sum_BHL, **sizes, **_dropout(dropout), **TILE)
    return out_BLHK, log_sum_BHL


@torch.library.custom_op("regard::relative_attention_backward", mutates_args=())
def attention_backward(
    gradient_BLHK: Tensor,
    out_BLHK: Tensor,
    log_sum_BHL: Tensor,
    q_BLHK: Tensor,
    k_BSHK: Tensor,
    v_BSHK: Tensor,
    by_distance_BHLP: Tensor,
    by_segment_2BHL: Tensor,
    queries_3BL: Tensor,
    keys_2BS: Tensor,
    seed: Tensor,
    dropout: float,
) -> Gradients:
    """The gradients of the first five arguments of ``attention``."""
    (batch, length, heads, _), keys = q_BLHK.shape, k_BSHK.shape[1]
    tensors, sizes = _dense(q_BLHK, k_BSHK, v_BSHK, by_distance_BHLP, by_segment_2BHL)
    results = _empty_gradients(q_BLHK, k_BSHK, v_BSHK, by_distance_BHLP, by_segment_2BHL)
    dq, dk, dv, d_distance, d_segment = results
    d_distance.zero_()
    gradient_BLHK = gradient_BLHK.contiguous()
    product_BHL = torch.empty_like(log_sum_BHL)  # of outputs and their gradients
    given = *tensors, queries_3BL, keys_2BS, seed, gradient_BLHK, log_sum_BHL, product_BHL
    of_queries, of_keys = (out_BLHK, dq, d_distance, d_segment), (dk, dv)
    settings = sizes | _dropout(dropout)
    grid = triton.cdiv(length, TILE["query_tile"]), batch * heads
    _backward_of_queries[grid](*given, *of_queries, **settings, **TILE)
    grid = triton.cdiv(keys, TILE["key_tile"]), batch * heads
    _backward_of_keys[grid](*given, *of_keys, **settings, **TILE)
    return results


@attention.register_fake
def _(q_BLHK, k_BSHK, v_BSHK, *_others):
    batch, length, heads, _ = q_BLHK.shape
    log_sum_BHL = v_BSHK.new_empty((batch, heads, length), dtype=torch.float32)
    return v_BSHK.new_empty(q_BLHK.shape), log_sum_BHL


@attention_backward.register_fake
def _(_gradient, _out, _log_sum, *given):
    return _empty_gradients(*given[:5])


def _save(ctx, inputs: tuple, output: tuple[Tensor, Tensor]) -> None:
    *tensors, ctx.dropout = inputs
    ctx.save_for_backward(*output, *tensors)


def _gradients(ctx, gradient_BLHK: Tensor, _: Tensor | None) -> tuple[Tensor | None, ...]:
    results = attention_backward(gradient_BLHK, *ctx.saved_tensors, ctx.dropout)
    return *results, None, None, None, None


attention.register_autograd(_gradients, setup_context=_save)


def _empty_gradients(
    q_BLHK: Tensor, k_BSHK: Tensor, v_BSHK: Tensor, by_distance_BHLP: Tensor, by_segment: Tensor
) -> Gradients:
    given = q_BLHK, k_BSHK, v_BSHK, by_segment
    dq, dk, dv, d_segment = (x.new_empty(x.shape) for x in given)
    return dq, dk, dv, torch.empty_like(_dense_rows(by_distance_BHLP)), d_segment


def _dense_rows(x_BHLP: Tensor) -> Tensor:
    """Without gaps: the heads of each row one after another, or the rows of each head."""
    dense = x_BHLP.is_contiguous() or x_BHLP.transpose(0, 1).is_contiguous()
    return x_BHLP if dense else x_BHLP.contiguous()


def _dense(
    q_BLHK: Tensor, k_BSHK: Tensor, v_BSHK: Tensor, by_distance_BHLP: Tensor, by_segment: Tensor
) -> tuple[tuple[Tensor, ...], dict[str, int]]:
    """The tensors in an order that kernels can read, and their sizes."""
    (batch, length, heads, size), keys = q_BLHK.shape, k_BSHK.shape[1]
    row = k_BSHK.stride(1)  # keys and values may be parts of one tensor
    if not k_BSHK.stride() == v_BSHK.stride() == (keys * row, row, size, 1):
        k_BSHK, v_BSHK, row = k_BSHK.contiguous(), v_BSHK.contiguous(), heads * size
    by_distance_BHLP, columns = _dense_rows(by_distance_BHLP), by_distance_BHLP.shape[-1]
    tensors = q_BLHK.contiguous(), k_BSHK, v_BSHK, by_distance_BHLP, by_segment.contiguous()
    sizes = {"batch": batch, "heads": heads, "length": length, "keys": keys, "columns": columns}
    sizes |= {"key_stride": row, "size": size}
    sizes |= dict(zip(("batch_stride", "head_stride"), by_distance_BHLP.stride()[:2], strict=True))
    return tensors, sizes


def _dropout(share: float) -> dict[str, float]:
    """Weights whose random 32 bits are below ``dropped`` are dropped, others made larger."""
    larger = 1 / (1 - share) if share < 1 else 0.0
    return {"dropped": int(share * (2**32 - 1)), "larger": larger, "drops": share > 0}


@jit
def _hash(x, seed):
    """32 random bits of a number (the last steps of murmur3)."""
    x = x.to(tl.uint32) * 0x9E3779B1 + seed
    x = (x ^ (x >> 16)) * 0x85EBCA6B
    x = (x ^ (x >> 13)) * 0xC2B2AE35
    return x ^ (x >> 16)


@jit
def _is_kept(row_bits, key_bits, dropped):
    """Which pairs dropout keeps."""
    x = (row_bits[:, None] ^ key_bits[None, :]) * 0x85EBCA6B
    return (x ^ (x >> 15)) * 0xC2B2AE35 >= dropped.to(tl.uint32)


@jit
def _scores(q, k, distance, key, order, key_segment, limit, segment, same, other):
    """The scores of a tile, -inf where a query may not attend."""
    allowed = order[None, :] < limit[:, None]
    by_distance = tl.load(distance[:, None] + key[None, :], mask=allowed, other=0.0)
    in_same = segment[:, None] == key_segment[None, :]
    scores = tl.dot(q, tl.trans(k)) + by_distance.to(tl.float32)
    scores += tl.where(in_same, same[:, None], other[:, None])
    return tl.where(allowed, scores, float("-inf")), in_same


@jit
def _of_queries(
    queries, by_distance, by_segment, b, h, row, row_mask, batch, heads, length, columns,
    batch_stride, head_stride,
):  # fmt: skip
    """Of a tile of queries: limits, scores by distance, segments, scores by segment."""
    index = b * length + row
    limit = tl.load(queries + index, mask=row_mask, other=-2147483648)
    column = tl.load(queries + batch * length + index, mask=row_mask, other=0)
    segment = tl.load(queries + 2 * batch * length + index, mask=row_mask, other=0)
    head_start = b.to(tl.int64) * batch_stride + h.to(tl.int64) * head_stride
    offset = head_start + row.to(tl.int64) * columns + column
    scores = by_segment + (b * heads + h) * length + row
    same = tl.load(scores, mask=row_mask, other=0.0).to(tl.float32)
    other = tl.load(scores + batch * heads * length, mask=row_mask, other=0.0).to(tl.float32)
    return limit, offset, segment, same, other


@jit
def _of_keys(keys_2BS, b, key, key_mask, batch, keys):
    """Of a tile of keys: orders and segments."""
    index = b * keys + key
    order = tl.load(keys_2BS + index, mask=key_mask, other=2147483647)
    return order, tl.load(keys_2BS + batch * keys + index, mask=key_mask, other=0)


@jit
def _forward(
    q_in, k_in, v_in, by_distance, by_segment, queries, keys_2BS, seed_in, out, log_sum,
    batch, heads, length, keys, columns, key_stride, batch_stride, head_stride, dropped, larger,
    size: "tl.constexpr", drops: "tl.constexpr",
    query_tile: "tl.constexpr", key_tile: "tl.constexpr",
):  # fmt: skip
    """One program per tile of queries of a head."""
    b, h = tl.program_id(1) // heads, tl.program_id(1) % heads
    row, inner = tl.program_id(0) * query_tile + tl.arange(0, query_tile), tl.arange(0, size)
    row_mask = row < length
    q_offsets = ((b * length + row) * heads + h)[:, None] * size + inner[None, :]
    q = tl.load(q_in + q_offsets, mask=row_mask[:, None], other=0.0)
    limit, offset, segment, same, other = _of_queries(
        queries, by_distance, by_segment, b, h, row, row_mask, batch, heads, length, columns,
        batch_stride, head_stride,
    )  # fmt: skip
    seed, pair = tl.load(seed_in).to(tl.uint32), tl.program_id(1) * length + row
    row_bits = _hash(pair, seed ^ 0x5BD1E995)
    highest = tl.full([query_tile], float("-inf"), tl.float32)
    total = tl.zeros([query_tile], tl.float32)
    sums = tl.zeros([query_tile, size], tl.float32)
    for start in range(0, keys, key_tile):
        key = start + tl.arange(0, key_tile)
        order, key_segment = _of_keys(keys_2BS, b, key, key < keys, batch, keys)
        kv_offsets = (b * keys + key)[:, None] * key_stride + h * size + inner[None, :]
        k = tl.load(k_in + kv_offsets, mask=(key < keys)[:, None], other=0.0)
        scores, _ = _scores(
            q, k, by_distance + offset, key, order, key_segment, limit, segment, same, other
        )
        new = tl.maximum(highest, tl.max(scores, 1))
        base = tl.where(new == float("-inf"), 0.0, new)
        weights = tl.exp(scores - base[:, None])
        shrink = tl.exp(highest - base)
        total = total * shrink + tl.sum(weights, 1)
        if drops:
            keep_mask = _is_kept(row_bits, _hash(key, seed), dropped)
            weights = tl.where(keep_mask, weights * larger, 0.0)
        v = tl.load(v_in + kv_offsets, mask=(key < keys)[:, None], other=0.0)
        sums = tl.dot(weights.to(v.dtype), v, sums * shrink[:, None])
        highest = new
    has_keys = total > 0
    attended = sums / tl.where(has_keys, total, 1.0)[:, None]
    tl.store(out + q_offsets, attended.to(out.dtype.element_ty), mask=row_mask[:, None])
    # An infinite sum gives weights of 0 in the backward pass to a query without keys.
    log_total = tl.where(has_keys, highest + tl.log(tl.where(has_keys, total, 1.0)), float("inf"))
    tl.store(log_sum + pair, log_total, mask=row_mask)


@jit
def _backward_of_queries(
    q_in, k_in, v_in, by_distance, by_segment, queries, keys_2BS, seed_in, gradient, log_sum,
    product, out, dq_out, d_distance, d_segment,
    batch, heads, length, keys, columns, key_stride, batch_stride, head_stride, dropped, larger,
    size: "tl.constexpr", drops: "tl.constexpr",
    query_tile: "tl.constexpr", key_tile: "tl.constexpr",
):  # fmt: skip
    """The gradients of queries and of scores by distance and segment: a program per tile."""
    b, h = tl.program_id(1) // heads, tl.program_id(1) % heads
    row, inner = tl.program_id(0) * query_tile + tl.arange(0, query_tile), tl.arange(0, size)
    row_mask = row < length
    q_offsets = ((b * length + row) * heads + h)[:, None] * size + inner[None, :]
    q = tl.load(q_in + q_offsets, mask=row_mask[:, None], other=0.0)
    do = tl.load(gradient + q_offsets, mask=row_mask[:, None], other=0.0)
    limit, offset, segment, same, other = _of_queries(
        queries, by_distance, by_segment, b, h, row, row_mask, batch, heads, length, columns,
        batch_stride, head_stride,
    )  # fmt: skip
    seed, pair = tl.load(seed_in).to(tl.uint32), tl.program_id(1) * length + row
    row_bits = _hash(pair, seed ^ 0x5BD1E995)
    log_total = tl.load(log_sum + pair, mask=row_mask, other=float("inf"))
    attended = tl.load(out + q_offsets, mask=row_mask[:, None], other=0.0)
    mean = tl.sum(do.to(tl.float32) * attended.to(tl.float32), 1)
    tl.store(product + pair, mean, mask=row_mask)
    dq = tl.zeros([query_tile, size], tl.float32)
    d_same, d_other = tl.zeros([query_tile], tl.float32), tl.zeros([query_tile], tl.float32)
    for start in range(0, keys, key_tile):
        key = start + tl.arange(0, key_tile)
        order, key_segment = _of_keys(keys_2BS, b, key, key < keys, batch, keys)
        kv_offsets = (b * keys + key)[:, None] * key_stride + h * size + inner[None, :]
        k = tl.load(k_in + kv_offsets, mask=(key < keys)[:, None], other=0.0)
        v = tl.load(v_in + kv_offsets, mask=(key < keys)[:, None], other=0.0)
        scores, in_same = _scores(
            q, k, by_distance + offset, key, order, key_segment, limit, segment, same, other
        )
        weights = tl.exp(scores - log_total[:, None])
        d_weights = tl.dot(do, tl.trans(v))
        if drops:
            keep_mask = _is_kept(row_bits, _hash(key, seed), dropped)
            d_weights = tl.where(keep_mask, d_weights * larger, 0.0)
        d_scores = weights * (d_weights - mean[:, None])
        d_same += tl.sum(tl.where(in_same, d_scores, 0.0), 1)
        d_other += tl.sum(tl.where(in_same, 0.0, d_scores), 1)
        allowed = order[None, :] < limit[:, None]
        pointers = d_distance + offset[:, None] + key[None, :]
        tl.store(pointers, d_scores.to(d_distance.dtype.element_ty), mask=allowed)
        dq = tl.dot(d_scores.to(k.dtype), k, dq)
    tl.store(dq_out + q_offsets, dq.to(dq_out.dtype.element_ty), mask=row_mask[:, None])
    pointers = d_segment + (b * heads + h) * length + row
    tl.store(pointers, d_same.to(d_segment.dtype.element_ty), mask=row_mask)
    pointers += batch * heads * length
    tl.store(pointers, d_other.to(d_segment.dtype.element_ty), mask=row_mask)


@jit
def _backward_of_keys(
    q_in, k_in, v_in, by_distance, by_segment, queries, keys_2BS, seed_in, gradient, log_sum,
    product, dk_out, dv_out,
    batch, heads, length, keys, columns, key_stride, batch_stride, head_stride, dropped, larger,
    size: "tl.constexpr", drops: "tl.constexpr",
    query_tile: "tl.constexpr", key_tile: "tl.constexpr",
):  # fmt: skip
    """The gradients of keys and values: a program per tile of keys of a head."""
    b, h = tl.program_id(1) // heads, tl.program_id(1) % heads
    key, inner = tl.program_id(0) * key_tile + tl.arange(0, key_tile), tl.arange(0, size)
    key_mask = key < keys
    order, key_segment = _of_keys(keys_2BS, b, key, key_mask, batch, keys)
    kv_offsets = (b * keys + key)[:, None] * key_stride + h * size + inner[None, :]
    k = tl.load(k_in + kv_offsets, mask=key_mask[:, None], other=0.0)
    v = tl.load(v_in + kv_offsets, mask=key_mask[:, None], other=0.0)
    seed = tl.load(seed_in).to(tl.uint32)
    key_bits = _hash(key, seed)
    dk, dv = tl.zeros([key_tile, size], tl.float32), tl.zeros([key_tile, size], tl.float32)
    for start in range(0, length, query_tile):
        row = start + tl.arange(0, query_tile)
        row_mask = row < length
        q_offsets = ((b * length + row) * heads + h)[:, None] * size + inner[None, :]
        q = tl.load(q_in + q_offsets, mask=row_mask[:, None], other=0.0)
        do = tl.load(gradient + q_offsets, mask=row_mask[:, None], other=0.0)
        limit, offset, segment, same, other = _of_queries(
            queries, by_distance, by_segment, b, h, row, row_mask, batch, heads, length, columns,
            batch_stride, head_stride,
        )  # fmt: skip
        pair = tl.program_id(1) * length + row
        log_total = tl.load(log_sum + pair, mask=row_mask, other=float("inf"))
        mean = tl.load(product + pair, mask=row_mask, other=0.0)
        scores, _ = _scores(
            q, k, by_distance + offset, key, order, key_segment, limit, segment, same, other
        )
        weights = tl.exp(scores - log_total[:, None])
        d_weights = tl.dot(do, tl.trans(v))
        if drops:
            keep_mask = _is_kept(_hash(pair, seed ^ 0x5BD1E995), key_bits, dropped)
            d_weights = tl.where(keep_mask, d_weights * larger, 0.0)
            used = tl.where(keep_mask, weights * larger, 0.0)
        else:
            used = weights
        d_scores = weights * (d_weights - mean[:, None])
        dv = tl.dot(tl.trans(used.to(do.dtype)), do, dv)
        dk = tl.dot(tl.trans(d_scores.to(q.dtype)), q, dk)
    offsets = ((b * keys + key) * heads + h)[:, None] * size + inner[None, :]
    tl.store(dk_out + offsets, dk.to(dk_out.dtype.element_ty), mask=key_mask[:, None])
    tl.store(dv_out + offsets, dv.to(dv_out.dtype.element_ty), mask=key_mask[:, None])
