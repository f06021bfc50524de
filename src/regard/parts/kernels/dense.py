"""Rows of one length on either side: images, full blocks, decoding against a memory."""

from torch import Tensor

from regard.parts.kernels.call import AttentionCall, fused_rows


def fits(call: AttentionCall, q_THK: Tensor, v_THK: Tensor) -> bool:
    """Both sides are rectangles."""
    return call.queries.even and call.keys.even


def run(call: AttentionCall, q_THK: Tensor, k_THK: Tensor, v_THK: Tensor) -> Tensor:
    """Padding and packing are views; a mask only where keys are dead or the sight asks for one."""
    return fused_rows(call, call.queries, call.keys, q_THK, k_THK, v_THK)
