"""Ragged rows on CUDA in half precision: flash attention straight over the packed tokens."""

import torch
from torch import Tensor

from regard.parts.kernels.asked import Asked
from regard.parts.sight import Window, everyone

try:
    from torch.nn.attention.varlen import varlen_attn
except ImportError:  # torch built without it
    varlen_attn = None  # type: ignore[assignment]

LARGEST_HEAD = 256


def fits(asked: Asked, q_THK: Tensor, v_THK: Tensor) -> bool:
    """Flash knows half precision, one size of head, no dropout on weights, limits from 0 up."""
    return (
        varlen_attn is not None
        and q_THK.is_cuda
        and q_THK.dtype in (torch.bfloat16, torch.float16)
        and asked.dropout == 0
        and asked.aligned
        and all(limit is None or limit >= 0 for limit in _limits(asked))
        and q_THK.shape[-1] == v_THK.shape[-1] <= LARGEST_HEAD
        and q_THK.shape[-1] % 8 == 0
    )


def run(asked: Asked, q_THK: Tensor, k_THK: Tensor, v_THK: Tensor) -> Tensor:
    """No padding anywhere; empty rows cost nothing."""
    left, right = _limits(asked)
    return varlen_attn(  # type: ignore[return-value]
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
