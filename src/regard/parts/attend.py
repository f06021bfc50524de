"""The definition of attention. Fused kernels compute the same faster, and must agree with it."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.ground.layout import Layout
from regard.ground.tape import NULL_TAPE, NullTape
from regard.parts import kernels
from regard.parts.mask import Mask, full


def masked_softmax(scores: Tensor, allowed: Tensor) -> Tensor:
    """Softmax over the keys that are allowed; masked keys have a weight of exactly 0.

    A query without any allowed key gets zeros, not NaN, forward and backward. A score of -inf masks
    a key as well.
    """
    allowed = allowed & (scores != float("-inf"))
    lowest = torch.finfo(scores.dtype).min
    precise = torch.promote_types(scores.dtype, torch.float32)
    weights = F.softmax(scores.masked_fill(~allowed, lowest), dim=-1, dtype=precise)
    return weights.to(scores.dtype) * allowed


def attend(
    score: Callable[..., Tensor],
    q_THK: Tensor,
    k_THK: Tensor,
    v_THK: Tensor,
    *,
    queries: Layout,
    keys: Layout,
    mask: Mask = full,
    dropout: float = 0.0,
    tape: NullTape = NULL_TAPE,
) -> Tensor:
    """For each query the mean of its row's values, weighted by the softmax of the scores."""
    q, k, v = queries.pad(q_THK), keys.pad(k_THK), keys.pad(v_THK)
    allowed_BHLS = (mask(queries, keys) & keys.real_BL[:, None])[:, None]
    scores_BHLS = tape("scores", score(q, k, queries, keys))
    weights_BHLS = tape("weights", masked_softmax(scores_BHLS, allowed_BHLS))
    dropped_BHLS = F.dropout(weights_BHLS, dropout).to(v.dtype)
    return queries.pack(torch.einsum("bhls,bshk->blhk", dropped_BHLS, v))


def fast_attend(
    score: Callable[..., Tensor],
    q_THK: Tensor,
    k_THK: Tensor,
    v_THK: Tensor,
    *,
    queries: Layout,
    keys: Layout,
    mask: Mask = full,
    dropout: float = 0.0,
    tape: NullTape = NULL_TAPE,
) -> Tensor:
    """``attend`` by the fastest kernel that fits, unless the tape needs scores or weights."""
    if not tape.wants("scores", "weights"):
        call = kernels.AttentionCall(score, queries, keys, mask, dropout)
        kernel = kernels.choose(call, q_THK, v_THK)
        if kernel is not None:
            return kernel(call, q_THK, k_THK, v_THK)
    return attend(
        score,
        q_THK,
        k_THK,
        v_THK,
        queries=queries,
        keys=keys,
        mask=mask,
        dropout=dropout,
        tape=tape,
    )
