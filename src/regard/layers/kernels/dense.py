"""Padded rows: of equal length (images, full blocks, one-token decoding with a KV cache), or with a
position bias in a training step of fixed shapes, whose lengths the host does not know.
"""

from torch import Tensor

from regard.layers.kernels.call import AttentionCall, fused_rows


def fits(call: AttentionCall, q_THK: Tensor, v_THK: Tensor) -> bool:
    """Whether rows have equal lengths, or a bias and no known lengths on CUDA."""
    unknown = call.queries.lengths is None or call.keys.lengths is None
    even = call.queries.even and call.keys.even
    return even or (call.biased and unknown and q_THK.is_cuda)


def run(call: AttentionCall, q_THK: Tensor, k_THK: Tensor, v_THK: Tensor) -> Tensor:
    """Attention with padding and packing, views if lengths are equal; a mask only if needed."""
    return fused_rows(call, call.queries, call.keys, q_THK, k_THK, v_THK)
