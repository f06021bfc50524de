"""Rows of equal length: images, full blocks, one-token decoding with a KV cache."""

from torch import Tensor

from regard.parts.kernels.call import AttentionCall, fused_rows


def fits(call: AttentionCall, q_THK: Tensor, v_THK: Tensor) -> bool:
    """Whether the rows of queries, and of keys, have equal lengths."""
    return call.queries.even and call.keys.even


def run(call: AttentionCall, q_THK: Tensor, k_THK: Tensor, v_THK: Tensor) -> Tensor:
    """Attention with padding and packing as views; a mask only if one is needed."""
    return fused_rows(call, call.queries, call.keys, q_THK, k_THK, v_THK)
