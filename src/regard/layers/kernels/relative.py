"""XLNet's attention on CUDA, in tiles of queries and keys (Dao et al., 2022).

The score of a query and a key is q·k + a score by distance + a score by segment. The scores by
distance of every query and their gradient are in memory, but no other table of all pairs.
"""

import torch
from torch import Tensor

from regard.layers.kernels.few_rows import HALVES, Kernel, hash_bits, jit, triton

if triton is not None:
    import triton.language as tl

SIZES = (16, 32, 64, 128)  # head sizes that the kernels support
NEVER = 2**31 - 1  # the order of padding
TILE = {"query_tile": 64, "key_tile": 64, "num_warps": 4, "num_stages": 1}
Gradients = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]


def fits(q: Tensor, k: Tensor) -> bool:
    """Whether heads have a usual size in half precision on CUDA, and Triton is installed."""
    usual = q.shape[-1] in SIZES and q.numel() > 0 and k.numel() > 0
    return triton is not None and usual and q.is_cuda and k.dtype in HALVES


@torch.library.custom_op("regard::relative_attention", mutates_args=())
def attention(
    q_BLHK: Tensor, k_BSHK: Tensor, v_BSHK: Tensor, by_distance_BHLP: Tensor,
    by_segment_2BHL: Tensor, queries_3BL: Tensor, keys_2BS: Tensor, seed: Tensor, dropout: float,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Weighted mean of the values for each query, (B, L, H, K), and log of the softmax's sum.

    ``queries_3BL`` holds (limit, column, segment) of each query and ``keys_2BS`` (order, segment)
    of each key. A query attends to keys with an order below its limit. Its scores by distance, one
    per key, begin at its column. ``by_segment_2BHL`` holds the score of keys in the query's segment
    and the score of keys in other segments.
    """
    out_BLHK, log_sum_BHL = _empty_results(q_BLHK, v_BSHK)
    tensors, sizes = _dense(q_BLHK, k_BSHK, v_BSHK, by_distance_BHLP, by_segment_2BHL)
    tensors += queries_3BL, keys_2BS, seed, out_BLHK, log_sum_BHL
    _launch(_forward, tensors, sizes, dropout, sizes["length"])
    return out_BLHK, log_sum_BHL


@torch.library.custom_op("regard::relative_attention_backward", mutates_args=())
def attention_backward(
    gradient_BLHK: Tensor, out_BLHK: Tensor, log_sum_BHL: Tensor, q_BLHK: Tensor, k_BSHK: Tensor,
    v_BSHK: Tensor, by_distance_BHLP: Tensor, by_segment_2BHL: Tensor, queries_3BL: Tensor,
    keys_2BS: Tensor, seed: Tensor, dropout: float,
) -> Gradients:  # fmt: skip
    """Gradients of the first five arguments of ``attention``."""
    tensors, sizes = _dense(q_BLHK, k_BSHK, v_BSHK, by_distance_BHLP, by_segment_2BHL)
    results = _empty_gradients(q_BLHK, k_BSHK, v_BSHK, by_distance_BHLP, by_segment_2BHL)
    dq, dk, dv, d_distance, d_segment = results
    d_distance.zero_()
    product_BHL = torch.empty_like(log_sum_BHL)  # of outputs and their gradients
    tensors += queries_3BL, keys_2BS, seed, gradient_BLHK.contiguous(), log_sum_BHL, product_BHL
    of_queries = *tensors, out_BLHK, dq, d_distance, d_segment
    _launch(_backward_of_queries, of_queries, sizes, dropout, sizes["length"])
    _launch(_backward_of_keys, (*tensors, dk, dv), sizes, dropout, sizes["keys"])
    return results


@attention.register_fake
def _(q_BLHK, k_BSHK, v_BSHK, *_):
    return _empty_results(q_BLHK, v_BSHK)


@attention_backward.register_fake
def _(_gradient, _out, _log_sum, *inputs):
    return _empty_gradients(*inputs[:5])


def _save(ctx, inputs: tuple, output: tuple[Tensor, Tensor]) -> None:
    *tensors, ctx.dropout = inputs
    ctx.save_for_backward(*output, *tensors)


def _gradients(ctx, gradient_BLHK: Tensor, _: Tensor | None) -> tuple[Tensor | None, ...]:
    results = attention_backward(gradient_BLHK, *ctx.saved_tensors, ctx.dropout)
    return *results, None, None, None, None


attention.register_autograd(_gradients, setup_context=_save)


def _empty_results(q_BLHK: Tensor, v_BSHK: Tensor) -> tuple[Tensor, Tensor]:
    batch, length, heads, _ = q_BLHK.shape
    log_sum_BHL = v_BSHK.new_empty((batch, heads, length), dtype=torch.float32)
    return v_BSHK.new_empty(q_BLHK.shape), log_sum_BHL


def _empty_gradients(
    q_BLHK: Tensor, k_BSHK: Tensor, v_BSHK: Tensor, by_distance_BHLP: Tensor, by_segment: Tensor
) -> Gradients:
    dq, dk, dv, d_segment = (x.new_empty(x.shape) for x in (q_BLHK, k_BSHK, v_BSHK, by_segment))
    return dq, dk, dv, torch.empty_like(_dense_rows(by_distance_BHLP)), d_segment


def _dense_rows(x_BHLP: Tensor) -> Tensor:
    """Tensor without gaps: the heads of each row one after another, or the rows of each head."""
    dense = x_BHLP.is_contiguous() or x_BHLP.transpose(0, 1).is_contiguous()
    return x_BHLP if dense else x_BHLP.contiguous()


def _dense(
    q_BLHK: Tensor, k_BSHK: Tensor, v_BSHK: Tensor, by_distance_BHLP: Tensor, by_segment: Tensor
) -> tuple[tuple[Tensor, ...], dict[str, int]]:
    """Tensors in an order that the kernels can read, and their sizes."""
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


def _launch(
    kernel: Kernel, tensors: tuple[Tensor, ...], sizes: dict[str, int], rate: float, longest: int
) -> None:
    """Launch one program per row, head and tile of the ``longest`` row of queries or of keys.

    Weights whose 32 random bits are below ``dropped`` are dropped, the rest is scaled up.
    """
    larger = 1 / (1 - rate) if rate < 1 else 0.0
    dropout = {"dropped": int(rate * (2**32 - 1)), "larger": larger, "drops": rate > 0}
    grid = triton.cdiv(longest, TILE["query_tile"]), sizes["batch"] * sizes["heads"]
    kernel[grid](*tensors, **sizes, **dropout, **TILE)


@jit
def _is_kept(row_bits, key_bits, dropped):
    """Mask of the pairs that dropout keeps."""
    x = (row_bits[:, None] ^ key_bits[None, :]) * 0x85EBCA6B
    return (x ^ (x >> 15)) * 0xC2B2AE35 >= dropped.to(tl.uint32)


@jit
def _scores(q, k, distance, key, order, key_segment, limit, segment, same, other):
    """Scores of a tile, -inf where a query may not attend; and whether segments are the same."""
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
    """Limits, offsets into scores by distance, segments and scores by segment of some queries."""
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
    """Orders and segments of a tile of keys."""
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
    """Kernel of the forward pass, with one program per tile of queries of a head."""
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
    row_bits = hash_bits(pair, seed ^ 0x5BD1E995)
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
            keep_mask = _is_kept(row_bits, hash_bits(key, seed), dropped)
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
    """Gradients of queries and of scores by distance and segment: a program per tile."""
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
    row_bits = hash_bits(pair, seed ^ 0x5BD1E995)
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
            keep_mask = _is_kept(row_bits, hash_bits(key, seed), dropped)
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
    """Gradients of keys and values: a program per tile of keys of a head."""
    b, h = tl.program_id(1) // heads, tl.program_id(1) % heads
    key, inner = tl.program_id(0) * key_tile + tl.arange(0, key_tile), tl.arange(0, size)
    key_mask = key < keys
    order, key_segment = _of_keys(keys_2BS, b, key, key_mask, batch, keys)
    kv_offsets = (b * keys + key)[:, None] * key_stride + h * size + inner[None, :]
    k = tl.load(k_in + kv_offsets, mask=key_mask[:, None], other=0.0)
    v = tl.load(v_in + kv_offsets, mask=key_mask[:, None], other=0.0)
    seed = tl.load(seed_in).to(tl.uint32)
    key_bits = hash_bits(key, seed)
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
            keep_mask = _is_kept(hash_bits(pair, seed ^ 0x5BD1E995), key_bits, dropped)
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
