"""Fast ways to compute ``attend``, one file each, behind one interface: ``fits`` and ``run``.

A kernel takes only what it can do exactly: dot-product scores, sights that are windows. What no
kernel takes, the definition computes.
"""

from collections.abc import Callable

from torch import Tensor

from regard.parts.kernels import even, grouped, single, varlen
from regard.parts.kernels.asked import Asked

__all__ = ["Asked", "choose"]

KERNELS = (single, even, varlen, grouped)


def choose(asked: Asked, q_THK: Tensor, v_THK: Tensor) -> Callable[..., Tensor] | None:
    """The first kernel that fits, or ``None``."""
    if not asked.plain:
        return None
    return next((kernel.run for kernel in KERNELS if kernel.fits(asked, q_THK, v_THK)), None)
