"""Ragged rows on CUDA in half precision: flash attention on packed tokens."""

from collections.abc import Callable
from inspect import signature
from typing import Any

from torch import Tensor

from regard.core.machine import has
from regard.layers.attend import for_each_head
from regard.layers.kernels.call import AttentionCall
from regard.layers.kernels.few_rows import HALVES

LARGEST_HEAD = 256


def _flash() -> Callable[..., Tensor] | None:
    """Return torch's flash-attention kernel, if there is one; its import takes a second."""
    if not has("cuda"):
        return None
    try:
        from torch.nn.attention.varlen import varlen_attn
    except ImportError:
        return None
    return varlen_attn  # type: ignore[return-value]


FLASH = _flash()
GROUPS = FLASH is not None and "enable_gqa" in signature(FLASH).parameters


def fits(call: AttentionCall, q_THK: Tensor, v_THK: Tensor) -> bool:
    """Whether inputs are in half precision with equal sizes, no dropout and window limits >= 0."""
    return (
        FLASH is not None
        and q_THK.is_cuda
        and q_THK.dtype in HALVES
        and call.dropout == 0
        and call.packed
        and q_THK.shape[-1] == v_THK.shape[-1] <= LARGEST_HEAD
        and q_THK.shape[-1] % 8 == 0
    )


def run(call: AttentionCall, q_THK: Tensor, k_THK: Tensor, v_THK: Tensor) -> Tensor:
    """Attention on packed tokens; empty rows are skipped."""
    assert FLASH is not None
    offsets = call.queries.offsets, call.keys.offsets
    sizes = call.queries.longest, call.keys.longest
    scale, window = call.scale(q_THK.shape[-1]), [-1 if n is None else n for n in call.limits]
    settings: dict[str, Any] = {"scale": scale, "window_size": tuple(window)}
    if q_THK.shape[1] != k_THK.shape[1] and GROUPS:
        settings["enable_gqa"] = True
    elif q_THK.shape[1] != k_THK.shape[1]:
        k_THK, v_THK = (for_each_head(x, q_THK.shape[1]) for x in (k_THK, v_THK))
    return FLASH(q_THK, k_THK, v_THK, *offsets, *sizes, **settings)
