"""Ragged rows with a position bias on CUDA, of lengths that the host need not know: padded rows.

A training step of fixed shapes has such rows.
"""

from torch import Tensor

from regard.parts.kernels.call import AttentionCall, fused_rows


def fits(call: AttentionCall, q_THK: Tensor, v_THK: Tensor) -> bool:
    """Whether a fused kernel of torch has a gradient for the bias: on CUDA."""
    return call.biased and q_THK.is_cuda


def run(call: AttentionCall, q_THK: Tensor, k_THK: Tensor, v_THK: Tensor) -> Tensor:
    """Attention of rows that are padded to the longest."""
    return fused_rows(call, call.queries, call.keys, q_THK, k_THK, v_THK)
