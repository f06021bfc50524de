"""Flash attention with attention dropout, on packed tokens in half precision on CUDA.

torch's flash attention on packed tokens has no dropout. These kernels (Dao et al., 2022) drop a
weight if the product of two odd 32-bit hashes, one of its query and head and one of its key, is
below a threshold: the backward pass recomputes the product at little cost.
"""

import torch
from torch import Tensor

from regard.layers.attend import for_each_head
from regard.layers.kernels.call import AttentionCall
from regard.layers.kernels.few_rows import HALVES, Kernel, hash_bits, jit, triton

if triton is not None:
    import triton.language as tl

SIZES = (16, 32, 64, 128)  # head sizes that the kernels support
UNLIMITED = 2**30  # window limit beyond the length of any row
LOG2_E = 1.4426950408889634
LARGE_HEAD = 128  # head size that leaves room for small tiles only
Pair = tuple[Tensor, Tensor]
Triple = tuple[Tensor, Tensor, Tensor]


def fits(call: AttentionCall, q_THK: Tensor, v_THK: Tensor) -> bool:
    """Whether this is attention with dropout in half precision on CUDA, and Triton is installed."""
    return (
        triton is not None
        and q_THK.is_cuda
        and q_THK.dtype in HALVES
        and 0 < call.dropout < 1
        and call.packed
        and not call.queries.padded
        and q_THK.shape[-1] == v_THK.shape[-1]
        and q_THK.shape[-1] in SIZES
    )


def run(call: AttentionCall, q_THK: Tensor, k_THK: Tensor, v_THK: Tensor) -> Tensor:
    """Attention on packed tokens; empty rows are skipped."""
    seed = torch.randint(1 << 31, (1,), device=q_THK.device)
    left, right = (UNLIMITED if limit is None else limit for limit in call.limits)
    queries, keys = call.queries, call.keys
    queries_2B = torch.stack((queries.offsets[:-1], queries.offsets.diff()))  # with padding
    keys_2B = torch.stack((keys.offsets[:-1], keys.lengths_B))
    sizes, full = [queries.longest, keys.longest, left, right], queries.full and keys.full
    settings = sizes, full, call.scale(q_THK.shape[-1]), call.dropout
    k_SHK, v_SHK = (for_each_head(x, q_THK.shape[1]) for x in (k_THK, v_THK))
    return attention(q_THK, k_SHK, v_SHK, queries_2B, keys_2B, seed, *settings)[0]


@torch.library.custom_op("regard::packed_attention_with_dropout", mutates_args=())
def attention(
    q_THK: Tensor, k_SHK: Tensor, v_SHK: Tensor, queries_2B: Tensor, keys_2B: Tensor,
    seed: Tensor, sizes: list[int], full: bool, scale: float, dropout: float,
) -> Pair:  # fmt: skip
    """Weighted mean of the values for each query, and log2 of the sum of its softmax, (T, H).

    ``queries_2B`` and ``keys_2B`` hold the first token and the length of each row. ``sizes`` are
    the longest row of queries, the longest row of keys, and the limits of the window to the left
    and right. With ``full`` every token belongs to a row, and all rows are as long as the longest;
    otherwise tokens that belong to no row get zeros.
    """
    (out_THK,) = _results(full, q_THK)
    log_sum_TH = torch.empty(q_THK.shape[:2], device=q_THK.device)
    tensors = queries_2B, keys_2B, seed, out_THK, log_sum_TH
    _launch(_forward, _dense(q_THK, k_SHK, v_SHK), tensors, sizes, full, scale, dropout)
    return out_THK, log_sum_TH


@torch.library.custom_op("regard::packed_attention_with_dropout_backward", mutates_args=())
def attention_backward(
    gradient_THK: Tensor, out_THK: Tensor, log_sum_TH: Tensor, q_THK: Tensor, k_SHK: Tensor,
    v_SHK: Tensor, queries_2B: Tensor, keys_2B: Tensor, seed: Tensor, sizes: list[int],
    full: bool, scale: float, dropout: float,
) -> Triple:  # fmt: skip
    """Gradients of the first three arguments of ``attention``."""
    dq_THK, dk_SHK, dv_SHK = _results(full, q_THK, k_SHK, v_SHK)
    gradient_THK, product_TH = gradient_THK.contiguous(), torch.empty_like(log_sum_TH)
    qkv, settings = _dense(q_THK, k_SHK, v_SHK), (sizes, full, scale, dropout)
    tensors = queries_2B, keys_2B, seed, gradient_THK, log_sum_TH, product_TH
    _launch(_backward_of_queries, qkv, (*tensors, out_THK, dq_THK), *settings)
    _launch(_backward_of_keys, qkv, (*tensors, dk_SHK, dv_SHK), *settings, by_keys=True)
    return dq_THK, dk_SHK, dv_SHK


@attention.register_fake
def _(q_THK, *_):
    return q_THK.new_empty(q_THK.shape), q_THK.new_empty(q_THK.shape[:2], dtype=torch.float32)


@attention_backward.register_fake
def _(_gradient, _out, _log_sum, q_THK, k_SHK, v_SHK, *_):
    return tuple(x.new_empty(x.shape) for x in (q_THK, k_SHK, v_SHK))


def _save(ctx, inputs: tuple, output: Pair) -> None:
    tensors, ctx.settings = inputs[:6], inputs[6:]
    ctx.save_for_backward(*output, *tensors)


def _gradients(ctx, gradient_THK: Tensor, _: Tensor | None) -> tuple[Tensor | None, ...]:
    gradients = attention_backward(gradient_THK, *ctx.saved_tensors, *ctx.settings)
    return *gradients, *[None] * 7


attention.register_autograd(_gradients, setup_context=_save)


def _results(full: bool, *like: Tensor) -> list[Tensor]:
    """Allocate result tensors; zeros unless the kernels write every token."""
    make = torch.empty if full else torch.zeros
    return [make(x.shape, dtype=x.dtype, device=x.device) for x in like]


def _dense(*tensors: Tensor) -> list[Tensor]:
    """Make tensors contiguous, so that heads lie one after another."""
    size = tensors[0].shape[-1]
    return [x if x.stride()[1:] == (size, 1) else x.contiguous() for x in tensors]


def _launch(
    kernel: Kernel, qkv: list[Tensor], tensors: tuple[Tensor, ...], sizes: list[int], full: bool,
    scale: float, dropout: float, *, by_keys: bool = False,
) -> None:  # fmt: skip
    """Launch one program per row, head and tile of queries, or ``by_keys`` of keys."""
    longest_query, longest_key, left, right = sizes
    heads, size = qkv[0].shape[1:]
    # The fastest tiles of those tried on an H200.
    query_tile = 128 if not by_keys and longest_query > 64 and size < LARGE_HEAD else 64
    tiles = triton.cdiv(longest_key, 64) if by_keys else triton.cdiv(longest_query, query_tile)
    numbers = left, right, int(dropout * (2**32 - 1)), scale, scale * LOG2_E, 1 / (1 - dropout)
    ragged = not (full and longest_query % query_tile == 0 == longest_key % 64)
    shape = ragged, min(left, right) < UNLIMITED, size, query_tile, 64
    strides, stages = (x.stride(0) for x in qkv), 3 if size < LARGE_HEAD else 2
    kernel[tiles, tensors[0].shape[1] * heads](
        *qkv, *tensors, *strides, heads, *numbers, *shape, num_warps=4, num_stages=stages
    )


@jit
def _odd_hash(x, seed):
    """Odd 32-bit hash of each number."""
    return hash_bits(x, seed) | 1


@jit
def _query_hash(token, head, heads, seed):
    """Odd hash of a query and a head."""
    return _odd_hash(token * heads + head, seed ^ 0x5BD1E995)


@jit
def _is_kept(rows, columns, dropped):
    """Mask of the pairs that dropout keeps."""
    return rows[:, None] * columns[None, :] >= dropped.to(tl.uint32)


@jit
def _allow(scores, query, key, keys, left, right, ragged: "tl.constexpr", windowed: "tl.constexpr"):
    """Scores of a tile, -inf at keys beyond the row and the window.

    ``query`` and ``key`` are numbers along the axes of the tile, one of them with a leading axis.
    """
    if ragged:
        scores = tl.where(key < keys, scores, float("-inf"))
    if windowed:
        within = (key - query >= -left) & (key - query <= right)
        scores = tl.where(within, scores, float("-inf"))
    return scores


@jit
def _pointers(tensor, token, stride, h, size: "tl.constexpr"):
    """Pointers to the vectors of one head, a token in each row."""
    return tensor + token[:, None] * stride + h * size + tl.arange(0, size)[None, :]


@jit
def _load(tensor, token, in_row, stride, h, size: "tl.constexpr", ragged: "tl.constexpr"):
    """Vectors of one head, a token in each row; 0 beyond the row of the batch."""
    pointers = _pointers(tensor, token, stride, h, size)
    return tl.load(pointers, mask=in_row[:, None], other=0.0) if ragged else tl.load(pointers)


@jit
def _store(tensor, token, in_row, stride, h, vectors, size: "tl.constexpr"):
    """Write vectors of one head, a token in each row."""
    pointers = _pointers(tensor, token, stride, h, size)
    tl.store(pointers, vectors.to(tensor.dtype.element_ty), mask=in_row[:, None])


@jit
def _program(queries_2B, keys_2B, heads):
    """Head of a program, then the first token and length of its queries, and of its keys."""
    b, h, rows = tl.program_id(1) // heads, tl.program_id(1) % heads, tl.num_programs(1) // heads
    first_query, queries = tl.load(queries_2B + b).to(tl.int64), tl.load(queries_2B + rows + b)
    first_key, keys = tl.load(keys_2B + b).to(tl.int64), tl.load(keys_2B + rows + b)
    return h, first_query, queries.to(tl.int32), first_key, keys.to(tl.int32)


@jit
def _forward(
    q_in, k_in, v_in, queries_2B, keys_2B, seed_in, out, log_sum,
    q_stride, k_stride, v_stride, heads, left, right, dropped, scale, log2_scale, larger,
    ragged: "tl.constexpr", windowed: "tl.constexpr", size: "tl.constexpr",
    query_tile: "tl.constexpr", key_tile: "tl.constexpr",
):  # fmt: skip
    """Kernel of the forward pass, with one program per tile of queries of a head."""
    h, first_query, queries, first_key, keys = _program(queries_2B, keys_2B, heads)
    begin = tl.program_id(0) * query_tile
    if begin >= queries:
        return
    query = begin + tl.arange(0, query_tile)
    token, in_row = first_query + query, query < queries
    q = _load(q_in, token, in_row, q_stride, h, size, ragged)
    seed = tl.load(seed_in).to(tl.uint32)
    query_hash = _query_hash(token, h, heads, seed)
    highest = tl.full([query_tile], float("-inf"), tl.float32)
    total = tl.zeros([query_tile], tl.float32)
    sums = tl.zeros([query_tile, size], tl.float32)
    start = tl.maximum(begin - left, 0) // key_tile * key_tile
    end = tl.minimum(keys, begin + query_tile + right)
    for at in tl.range(start, end, key_tile):
        key = at + tl.arange(0, key_tile)
        k_token, in_keys = first_key + key, key < keys
        k = tl.trans(_load(k_in, k_token, in_keys, k_stride, h, size, ragged))
        scores = tl.dot(q, k) * log2_scale
        scores = _allow(scores, query[:, None], key[None, :], keys, left, right, ragged, windowed)
        new = tl.maximum(highest, tl.max(scores, 1))
        base = tl.where(new == float("-inf"), 0.0, new)
        weights = tl.exp2(scores - base[:, None])
        shrink = tl.exp2(highest - base)
        total = total * shrink + tl.sum(weights, 1)
        weights = tl.where(_is_kept(query_hash, _odd_hash(key, seed), dropped), weights, 0.0)
        v = _load(v_in, k_token, in_keys, v_stride, h, size, ragged)
        sums = tl.dot(weights.to(v.dtype), v, sums * shrink[:, None])
        highest = new
    has_keys = total > 0
    total = tl.where(has_keys, total, 1.0)
    attended = sums * (larger / total)[:, None]
    _store(out, token, in_row, heads * size, h, attended, size)
    # An infinite sum gives weights of 0 in the backward pass to a query without keys.
    log_total = tl.where(has_keys, highest + tl.log2(total), float("inf"))
    tl.store(log_sum + token * heads + h, log_total, mask=in_row)


@jit
def _backward_of_queries(
    q_in, k_in, v_in, queries_2B, keys_2B, seed_in, gradient, log_sum, product, out, dq_out,
    q_stride, k_stride, v_stride, heads, left, right, dropped, scale, log2_scale, larger,
    ragged: "tl.constexpr", windowed: "tl.constexpr", size: "tl.constexpr",
    query_tile: "tl.constexpr", key_tile: "tl.constexpr",
):  # fmt: skip
    """Gradients of queries: a program per tile of queries of a head.

    ``product`` is the sum of outputs times their gradients, divided by ``larger``.
    """
    h, first_query, queries, first_key, keys = _program(queries_2B, keys_2B, heads)
    begin = tl.program_id(0) * query_tile
    if begin >= queries:
        return
    query = begin + tl.arange(0, query_tile)
    token, in_row = first_query + query, query < queries
    q = _load(q_in, token, in_row, q_stride, h, size, ragged)
    do = _load(gradient, token, in_row, heads * size, h, size, ragged)
    attended = _load(out, token, in_row, heads * size, h, size, ragged)
    mean = tl.sum(do.to(tl.float32) * attended.to(tl.float32), 1) / larger
    tl.store(product + token * heads + h, mean, mask=in_row)
    log_total = tl.load(log_sum + token * heads + h, mask=in_row, other=float("inf"))
    seed = tl.load(seed_in).to(tl.uint32)
    query_hash = _query_hash(token, h, heads, seed)
    dq = tl.zeros([query_tile, size], tl.float32)
    start = tl.maximum(begin - left, 0) // key_tile * key_tile
    end = tl.minimum(keys, begin + query_tile + right)
    for at in tl.range(start, end, key_tile):
        key = at + tl.arange(0, key_tile)
        k_token, in_keys = first_key + key, key < keys
        k = tl.trans(_load(k_in, k_token, in_keys, k_stride, h, size, ragged))
        v = tl.trans(_load(v_in, k_token, in_keys, v_stride, h, size, ragged))
        scores = tl.dot(q, k) * log2_scale
        scores = _allow(scores, query[:, None], key[None, :], keys, left, right, ragged, windowed)
        weights = tl.exp2(scores - log_total[:, None])
        d_weights = tl.dot(do, v)
        is_kept = _is_kept(query_hash, _odd_hash(key, seed), dropped)
        d_scores = weights * (tl.where(is_kept, d_weights, 0.0) - mean[:, None])
        dq = tl.dot(d_scores.to(k.dtype), tl.trans(k), dq)
    _store(dq_out, token, in_row, heads * size, h, dq * (scale * larger), size)


@jit
def _backward_of_keys(
    q_in, k_in, v_in, queries_2B, keys_2B, seed_in, gradient, log_sum, product, dk_out, dv_out,
    q_stride, k_stride, v_stride, heads, left, right, dropped, scale, log2_scale, larger,
    ragged: "tl.constexpr", windowed: "tl.constexpr", size: "tl.constexpr",
    query_tile: "tl.constexpr", key_tile: "tl.constexpr",
):  # fmt: skip
    """Gradients of keys and values: a program per tile of keys of a head."""
    h, first_query, queries, first_key, keys = _program(queries_2B, keys_2B, heads)
    begin = tl.program_id(0) * key_tile
    if begin >= keys:
        return
    key = begin + tl.arange(0, key_tile)
    token, in_row = first_key + key, key < keys
    k = _load(k_in, token, in_row, k_stride, h, size, ragged)
    v = _load(v_in, token, in_row, v_stride, h, size, ragged)
    seed = tl.load(seed_in).to(tl.uint32)
    key_hash = _odd_hash(key, seed)
    dk, dv = tl.zeros([key_tile, size], tl.float32), tl.zeros([key_tile, size], tl.float32)
    start = tl.maximum(begin - right, 0) // query_tile * query_tile
    end = tl.minimum(queries, begin + key_tile + left)
    for at in tl.range(start, end, query_tile):
        query = at + tl.arange(0, query_tile)
        q_token, in_queries = first_query + query, query < queries
        q = tl.trans(_load(q_in, q_token, in_queries, q_stride, h, size, ragged))
        do = _load(gradient, q_token, in_queries, heads * size, h, size, ragged)
        log_total = tl.load(log_sum + q_token * heads + h, mask=in_queries, other=float("inf"))
        mean = tl.load(product + q_token * heads + h, mask=in_queries, other=0.0)
        scores = tl.dot(k, q) * log2_scale
        scores = _allow(scores, query[None, :], key[:, None], keys, left, right, ragged, windowed)
        weights = tl.exp2(scores - log_total[None, :])
        is_kept = _is_kept(key_hash, _query_hash(q_token, h, heads, seed), dropped)
        dv = tl.dot(tl.where(is_kept, weights, 0.0).to(do.dtype), do, dv)
        d_weights = tl.dot(v, tl.trans(do))
        d_scores = weights * (tl.where(is_kept, d_weights, 0.0) - mean[None, :])
        dk = tl.dot(d_scores.to(q.dtype), tl.trans(q), dk)
    _store(dk_out, token, in_row, heads * size, h, dk * (scale * larger), size)
    _store(dv_out, token, in_row, heads * size, h, dv * larger, size)
