"""Rectangles on either side: images, full blocks, one-token decoding with a KV cache."""

from torch import Tensor

from regard.parts.kernels.call import AttentionCall, fused_rows


def fits(call: AttentionCall, q_THK: Tensor, v_THK: Tensor) -> bool:
    """Both sides are rectangles."""
    return call.queries.even and call.keys.even


def run(call: AttentionCall, q_THK: Tensor, k_THK: Tensor, v_THK: Tensor) -> Tensor:
    """Padding and packing are views; masked only if there is padding or the mask is not full."""
    return fused_rows(call, call.queries, call.keys, q_THK, k_THK, v_THK)
