"""Rows of one length on either side: images, full blocks, decoding against a memory."""

from torch import Tensor

from regard.parts.kernels.asked import Asked, fused_rows


def fits(asked: Asked, q_THK: Tensor, v_THK: Tensor) -> bool:
    """Both sides are rectangles."""
    return asked.queries.even and asked.keys.even


def run(asked: Asked, q_THK: Tensor, k_THK: Tensor, v_THK: Tensor) -> Tensor:
    """Padding and packing are views; a mask only where keys are dead or the sight asks for one."""
    return fused_rows(asked, asked.queries, asked.keys, q_THK, k_THK, v_THK)
