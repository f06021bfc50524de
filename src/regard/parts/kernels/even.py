"""Rows of one length on either side: images, full blocks, decoding against a memory."""

from torch import Tensor

from regard.parts.kernels.asked import Asked, fused, fused_masked
from regard.parts.sight import causal


def fits(asked: Asked, q_THK: Tensor, v_THK: Tensor) -> bool:
    """Both sides are rectangles."""
    return asked.queries.even and asked.keys.even


def run(asked: Asked, q_THK: Tensor, k_THK: Tensor, v_THK: Tensor) -> Tensor:
    """Padding and packing are views; a mask only where keys are dead or the sight asks for one."""
    queries, keys = asked.queries, asked.keys
    q, k, v = queries.pad(q_THK), keys.pad(k_THK), keys.pad(v_THK)
    if keys.full and asked.unlimited:
        return queries.pack(fused(asked, q, k, v))
    if keys.full and asked.sight == causal and asked.aligned:
        return queries.pack(fused(asked, q, k, v, is_causal=True))
    allowed_BLS = keys.real_BL[:, None].expand(-1, queries.longest, -1)
    if not asked.unlimited:
        allowed_BLS = allowed_BLS & asked.sight(queries, keys)
    return queries.pack(fused_masked(asked, q, k, v, allowed_BLS))
