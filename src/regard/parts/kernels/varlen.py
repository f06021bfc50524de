"""Ragged rows on CUDA in half precision: flash attention straight over the packed tokens."""

from collections.abc import Callable

import torch
from torch import Tensor

from regard.ground.machine import has
from regard.parts.kernels.asked import Asked
from regard.parts.sight import Window, everyone

LARGEST_HEAD = 256


def _flash() -> Callable[..., Tensor] | None:
    """torch's kernel, if it has one; without a GPU its import would cost a second for nothing."""
    if not has("cuda"):
        return None
    try:
        from torch.nn.attention.varlen import varlen_attn
    except ImportError:
        return None
    return varlen_attn  # type: ignore[return-value]


FLASH = _flash()


def fits(asked: Asked, q_THK: Tensor, v_THK: Tensor) -> bool:
    """Flash knows half precision, one size of head, no dropout on weights, limits from 0 up."""
    return (
        FLASH is not None
        and q_THK.is_cuda
        and q_THK.dtype in (torch.bfloat16, torch.float16)
        and asked.dropout == 0
        and asked.aligned
        and asked.queries.longest > 0
        and asked.keys.longest > 0
        and all(limit is None or limit >= 0 for limit in _limits(asked))
        and q_THK.shape[-1] == v_THK.shape[-1] <= LARGEST_HEAD
        and q_THK.shape[-1] % 8 == 0
    )


def run(asked: Asked, q_THK: Tensor, k_THK: Tensor, v_THK: Tensor) -> Tensor:
    """No padding anywhere; empty rows cost nothing."""
    left, right = _limits(asked)
    assert FLASH is not None
    return FLASH(
        q_THK,
        k_THK,
        v_THK,
        asked.queries.offsets,
        asked.keys.offsets,
        asked.queries.longest,
        asked.keys.longest,
        scale=asked.scale(q_THK.shape[-1]),
        window_size=(-1 if left is None else left, -1 if right is None else right),
    )


def _limits(asked: Asked) -> tuple[int | None, int | None]:
    """How far each query sees; flash counts from the last key, right where rows are as long."""
    sight = everyone if asked.unlimited else asked.sight
    assert isinstance(sight, Window)
    return sight.left, sight.right
