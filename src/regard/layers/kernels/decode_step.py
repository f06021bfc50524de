"""Attention of one query per row to keys in a fixed buffer: a decoding step on CUDA.

Row r's key at position s lies in row ``owners_RS[r, s]`` of the buffer: a beam that reorders rows
rewrites this small table and moves no keys. Rows of one sentence share one copy of its source.
"""

import torch
from torch import Tensor

from regard.layers.attend import WindowMask, for_each_head
from regard.layers.kernels.call import AttentionCall
from regard.layers.kernels.few_rows import jit, start_settings, triton
from regard.layers.rotary import turn

if triton is not None:
    import triton.language as tl

Angles = tuple[Tensor, Tensor]  # cosines and sines by position, (S, F)
BLOCK, WARPS = 128, 4  # keys of a program at a time, and its warps


def fits(call: AttentionCall, q_THK: Tensor, v_THK: Tensor) -> bool:
    """Whether there is one query per row, and keys of earlier tokens in a shared buffer."""
    one_each = call.queries.even and call.queries.longest == 1
    # Keys are of earlier tokens, so that a limit to the right allows all of them.
    earlier = isinstance(call.mask, WindowMask) and call.mask.right in (None, 0)
    return call.keys.owners_BS is not None and one_each and earlier


def run(call: AttentionCall, q_RHK: Tensor, k_BSHK: Tensor, v_BSHK: Tensor) -> Tensor:
    """Attention of each row to its own positions of the buffer."""
    keys = call.keys
    assert keys.owners_BS is not None
    assert isinstance(call.mask, WindowMask)
    settings = keys.owners_BS, keys.lengths_B, call.scale(q_RHK.shape[-1]), call.mask.left
    on_gpu = triton is not None and q_RHK.is_cuda
    return (_launch if on_gpu else plain)(q_RHK, k_BSHK, v_BSHK, *settings)


def write_and_attend(
    q_RHK: Tensor, k_RHK: Tensor, v_RHK: Tensor, k_RSHK: Tensor, v_RSHK: Tensor,
    position_R: Tensor, owners_RS: Tensor, length_R: Tensor, scale: float, left: int | None = None,
    angles: Angles | None = None,
) -> Tensor:  # fmt: skip
    """``write``, then attention to all keys, in one launch; a row owns the position it writes.

    Queries and keys are turned by the cosines and sines of ``angles`` at their positions.
    """
    if triton is None or not q_RHK.is_cuda:
        if angles is not None:
            at = tuple(table_SF[position_R] for table_SF in angles)
            q_RHK, k_RHK = turn(q_RHK, *at), turn(k_RHK, *at)
        write(k_RSHK, v_RSHK, k_RHK, v_RHK, position_R)
        return plain(q_RHK, k_RSHK, v_RSHK, owners_RS, length_R, scale, left)
    new = k_RHK, v_RHK, position_R
    return _launch(q_RHK, k_RSHK, v_RSHK, owners_RS, length_R, scale, left, new, angles)


def _launch(
    q_RHK: Tensor, k_BSHK: Tensor, v_BSHK: Tensor, owners_RS: Tensor, length_R: Tensor,
    scale: float, left: int | None, new: tuple[Tensor, Tensor, Tensor] | None = None,
    angles: Angles | None = None,
) -> Tensor:  # fmt: skip
    """Launch one program per row and head; ``new`` holds keys and values to write, and where."""
    (R, H, K), V = q_RHK.shape, v_BSHK.shape[-1]
    attended_RHK = torch.empty((R, H, V), dtype=q_RHK.dtype, device=q_RHK.device)
    k_RHK, v_RHK, position_R = new or (q_RHK, q_RHK, length_R)
    cosine_SF, sine_SF = angles or (length_R, length_R)
    tensors = q_RHK, k_BSHK, v_BSHK, owners_RS, length_R, attended_RHK, k_RHK, v_RHK
    strides = *q_RHK.stride()[:2], k_BSHK.shape[1], *owners_RS.stride()
    strides += *k_RHK.stride()[:2], *v_RHK.stride()[:2]
    sizes = (
        k_BSHK.shape[2],
        H // k_BSHK.shape[2],
        K,
        V,
        triton.next_power_of_2(K),
        triton.next_power_of_2(V),
        BLOCK,
    )
    settings = {"num_warps": WARPS, **start_settings(new is not None, q_RHK.device)}
    settings |= {"writes": new is not None, "limited": left is not None}
    settings |= {"turned": 0 if angles is None else 2 * cosine_SF.shape[1]}
    places = position_R, cosine_SF, sine_SF
    _one_query[(R, H)](*tensors, *places, scale, (left or 0) + 1, *strides, *sizes, **settings)
    return attended_RHK


def plain(
    q_RHK: Tensor, k_BSHK: Tensor, v_BSHK: Tensor, owners_RS: Tensor, length_R: Tensor,
    scale: float, left: int | None = None,
) -> Tensor:  # fmt: skip
    """Attention of each row to its first ``length_R`` keys, (R, H, K), without Triton.

    With ``left``, only the last of them and that many before it.
    """
    positions_S = torch.arange(k_BSHK.shape[1], device=q_RHK.device)
    k, v = (
        for_each_head(x_BSHK[owners_RS.long(), positions_S], q_RHK.shape[1])
        for x_BSHK in (k_BSHK, v_BSHK)
    )
    scores_RHS = torch.einsum("rhk,rshk->rhs", q_RHK.float() * scale, k.float())
    dead_RS = positions_S >= length_R[:, None]
    if left is not None:
        dead_RS |= positions_S < length_R[:, None] - 1 - left
    weights_RHS = scores_RHS.masked_fill(dead_RS[:, None], -torch.inf).softmax(-1)
    return torch.einsum("rhs,rshk->rhk", weights_RHS, v.float()).to(q_RHK.dtype)


def write(k_RSHK: Tensor, v_RSHK: Tensor, k_RHK: Tensor, v_RHK: Tensor, position_R: Tensor) -> None:
    """Write each row's new key and value at ``position_R`` of its own row, in one launch."""
    if triton is None or not k_RHK.is_cuda or k_RHK.shape != v_RHK.shape:
        for buffer_RSHK, new_RHK in ((k_RSHK, k_RHK), (v_RSHK, v_RHK)):
            index = position_R[:, None, None, None].expand_as(new_RHK[:, None])
            buffer_RSHK.scatter_(1, index, new_RHK[:, None])
        return
    R, H, K = k_RHK.shape
    strides = *k_RHK.stride()[:2], *v_RHK.stride()[:2]
    sizes = k_RSHK.shape[1], H * K, K, triton.next_power_of_2(H * K)
    _write[(R,)](k_RSHK, v_RSHK, k_RHK, v_RHK, position_R, *strides, *sizes)


@jit
def _write(
    k_out, v_out, k_in, v_in, positions, k_row, k_head, v_row, v_head, capacity, size,
    key: "tl.constexpr", wide: "tl.constexpr",
):  # fmt: skip
    """Kernel of ``write``, with one program per row."""
    row, part = tl.program_id(0), tl.arange(0, wide)
    mask, head, column = part < size, part // key, part % key
    offsets = (row.to(tl.int64) * capacity + tl.load(positions + row)) * size + part
    k = tl.load(k_in + row * k_row + head * k_head + column, mask=mask)
    v = tl.load(v_in + row * v_row + head * v_head + column, mask=mask)
    tl.store(k_out + offsets, k, mask=mask)
    tl.store(v_out + offsets, v, mask=mask)


@jit
def _turned(
    x_at, cosines, sines, place, in_key, key: "tl.constexpr", turned: "tl.constexpr",
):  # fmt: skip
    """Query or key of one head, of which ``turned`` dimensions are turned by rotary positions."""
    half: tl.constexpr = turned // 2
    is_turned = in_key < turned
    other = tl.where(in_key < half, in_key + half, in_key - half)
    x = tl.load(x_at + in_key, mask=in_key < key, other=0.0)
    paired = tl.load(x_at + other, mask=is_turned, other=0.0).to(tl.float32)
    cosine = tl.load(cosines + place * half + in_key % half, mask=is_turned, other=1.0)
    sine = tl.load(sines + place * half + in_key % half, mask=is_turned, other=0.0)
    sine = tl.where(in_key < half, -sine, sine)
    return (x.to(tl.float32) * cosine + paired * sine).to(x.dtype)


@jit
def _one_query(
    q_in, k_in, v_in, owners, lengths, out, k_new, v_new, positions, cosines, sines, scale,
    window, q_row, q_head,
    capacity, owners_row, owners_position, k_row, k_head, v_row, v_head, kv_heads,
    group: "tl.constexpr", key: "tl.constexpr", value: "tl.constexpr", key_wide: "tl.constexpr",
    value_wide: "tl.constexpr", block: "tl.constexpr", writes: "tl.constexpr",
    limited: "tl.constexpr", turned: "tl.constexpr", early: "tl.constexpr",
):  # fmt: skip
    """Kernel with one program per row and head: a running softmax over blocks of keys.

    Programs of one ``group`` share a head of keys; each writes it, with the same bits.
    """
    if early:
        tl.extra.cuda.gdc_launch_dependents()
        tl.extra.cuda.gdc_wait()
    row, head = tl.program_id(0), tl.program_id(1)
    heads, kv_head = tl.num_programs(1), head // group
    length = tl.load(lengths + row)
    in_key, in_value = tl.arange(0, key_wide), tl.arange(0, value_wide)
    if turned:
        place = tl.load(positions + row)
        q_at, k_at_new = q_in + row * q_row + head * q_head, k_new + row * k_row + kv_head * k_head
        q = _turned(q_at, cosines, sines, place, in_key, key, turned)
    else:
        q = tl.load(q_in + row * q_row + head * q_head + in_key, mask=in_key < key, other=0.0)
    q = q.to(tl.float32) * scale
    if writes:
        new_offset = (row.to(tl.int64) * capacity + tl.load(positions + row)) * kv_heads + kv_head
        if turned:
            last_k = _turned(k_at_new, cosines, sines, place, in_key, key, turned)
        else:
            last_k = tl.load(k_new + row * k_row + kv_head * k_head + in_key, mask=in_key < key)
        last_v = tl.load(v_new + row * v_row + kv_head * v_head + in_value, mask=in_value < value)
        tl.store(k_in + new_offset * key + in_key, last_k, mask=in_key < key)
        tl.store(v_in + new_offset * value + in_value, last_v, mask=in_value < value)
        tl.debug_barrier()  # the program reads them again
    top = tl.full([1], float("-inf"), tl.float32)
    total = tl.zeros([1], tl.float32)
    mean = tl.zeros([value_wide], tl.float32)
    first = tl.maximum(length - window, 0) if limited else 0
    for start in range(first, length, block):
        position = start + tl.arange(0, block)
        mask = position < length
        owner = tl.load(owners + row * owners_row + position * owners_position, mask=mask, other=0)
        offsets = (owner.to(tl.int64) * capacity + position) * kv_heads + kv_head
        k_mask, v_mask = (in_key < key)[None, :], (in_value < value)[None, :]
        k_at = k_in + offsets[:, None] * key + in_key[None, :]
        v_at = v_in + offsets[:, None] * value + in_value[None, :]
        k = tl.load(k_at, mask=mask[:, None] & k_mask, other=0.0)
        v = tl.load(v_at, mask=mask[:, None] & v_mask, other=0.0)
        score = tl.where(mask, tl.sum(k.to(tl.float32) * q[None, :], 1), float("-inf"))
        higher = tl.maximum(top, tl.max(score, 0))
        weight, shrink = tl.exp(score - higher), tl.exp(top - higher)
        mean = mean * shrink + tl.sum(v.to(tl.float32) * weight[:, None], 0)
        total = total * shrink + tl.sum(weight, 0)
        top = higher
    attended = (mean / total).to(out.dtype.element_ty)
    tl.store(out + (row * heads + head) * value + in_value, attended, mask=in_value < value)
