"""Choice of a kernel: ``attend``, computed by the fastest kernel that fits."""

from collections.abc import Callable

from torch import Tensor

from regard.core.layout import Layout
from regard.layers.attend import Mask, attend, full
from regard.layers.kernels import bucketed, decode_step, dense, packed_dropout, varlen
from regard.layers.kernels.call import AttentionCall

KERNELS = (decode_step, dense, packed_dropout, varlen, bucketed)
BIASED = (dense, bucketed)  # kernels that add a position bias


def choose(call: AttentionCall, q_THK: Tensor, v_THK: Tensor) -> Callable[..., Tensor] | None:
    """First kernel that fits, or None."""
    kernels = KERNELS if call.plain else BIASED if call.biased else ()
    return next((kernel.run for kernel in kernels if kernel.fits(call, q_THK, v_THK)), None)


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
) -> Tensor:
    """``attend`` by the fastest kernel that fits, else by its definition."""
    call = AttentionCall(score, queries, keys, mask, dropout)
    if (kernel := choose(call, q_THK, v_THK)) is not None:
        return kernel(call, q_THK, k_THK, v_THK)
    q, k, v = q_THK, k_THK, v_THK
    return attend(score, q, k, v, queries=queries, keys=keys, mask=mask, dropout=dropout)
