"""Kernels that compute ``attend`` faster, one file each, with one interface: ``fits`` and ``run``.

They take dot-product scores under window masks only; ``attend`` computes the rest.
"""

from collections.abc import Callable

from torch import Tensor

from regard.parts.kernels import bucketed, decode_step, dense, packed_dropout, varlen
from regard.parts.kernels.call import AttentionCall

__all__ = ["AttentionCall", "choose"]

KERNELS = (decode_step, dense, packed_dropout, varlen, bucketed)


def choose(call: AttentionCall, q_THK: Tensor, v_THK: Tensor) -> Callable[..., Tensor] | None:
    """The first kernel that fits, or ``None``."""
    if not call.plain:
        return None
    return next((kernel.run for kernel in KERNELS if kernel.fits(call, q_THK, v_THK)), None)
