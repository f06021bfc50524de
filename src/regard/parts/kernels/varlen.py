"""Ragged rows on CUDA in half precision: flash attention on packed tokens."""

from collections.abc import Callable

import torch
from torch import Tensor

from regard.ground.machine import has
from regard.parts.kernels.call import AttentionCall

LARGEST_HEAD = 256


def _flash() -> Callable[..., Tensor] | None:
    """torch's kernel, if it has one; not imported without a GPU, as that takes a second."""
    if not has("cuda"):
        return None
    try:
        from torch.nn.attention.varlen import varlen_attn
    except ImportError:
        return None
    return varlen_attn  # type: ignore[return-value]


FLASH = _flash()


def fits(call: AttentionCall, q_THK: Tensor, v_THK: Tensor) -> bool:
    """Half precision, keys and values of one size, no attention dropout, window limits >= 0."""
    return (
        FLASH is not None
        and q_THK.is_cuda
        and q_THK.dtype in (torch.bfloat16, torch.float16)
        and call.dropout == 0
        and call.aligned
        and not call.keys.padded
        and call.queries.longest > 0
        and call.keys.longest > 0
        and all(limit is None or limit >= 0 for limit in call.limits)
        and q_THK.shape[-1] == v_THK.shape[-1] <= LARGEST_HEAD
        and q_THK.shape[-1] % 8 == 0
    )


def run(call: AttentionCall, q_THK: Tensor, k_THK: Tensor, v_THK: Tensor) -> Tensor:
    """No padding; empty rows are skipped."""
    left, right = call.limits
    assert FLASH is not None
    return FLASH(
        q_THK,
        k_THK,
        v_THK,
        call.queries.offsets,
        call.keys.offsets,
        call.queries.longest,
        call.keys.longest,
        scale=call.scale(q_THK.shape[-1]),
        window_size=(-1 if left is None else left, -1 if right is None else right),
    )
