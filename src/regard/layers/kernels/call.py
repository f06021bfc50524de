"""The arguments of an attention kernel, and the one call of torch's fused attention."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from regard.core.layout import Layout
from regard.layers.attend import (
    Dot,
    Mask,
    WindowMask,
    causal,
    for_each_head,
    full,
    is_biased_dot_product,
    is_dot_product,
)

# At head size 64 and equal lengths cuDNN takes about half of flash's time on Hopper.
ON_CUDA = [
    SDPBackend.CUDNN_ATTENTION,
    SDPBackend.FLASH_ATTENTION,
    SDPBackend.EFFICIENT_ATTENTION,
    SDPBackend.MATH,
]


@dataclass(frozen=True, eq=False)
class AttentionCall:
    """Arguments of one call of attention, without the tensors."""

    score: Callable[..., Tensor]
    queries: Layout
    keys: Layout
    mask: Mask
    dropout: float

    @property
    def plain(self) -> bool:
        """Whether the score is a dot product under a window mask, as fused kernels need."""
        return is_dot_product(self.score) and isinstance(self.mask, WindowMask)

    @property
    def biased(self) -> bool:
        """Whether the score is a dot product and a position bias, under a window mask."""
        fusable = is_biased_dot_product(self.score) and isinstance(self.mask, WindowMask)
        return fusable and not self.plain

    @property
    def aligned(self) -> bool:
        """Whether indices within rows give the same mask as positions."""
        same = self.queries is self.keys and self.queries.start is not None
        return self.unlimited or same

    @property
    def unlimited(self) -> bool:
        """Whether every query may attend to every key of its row."""
        if self.mask == full:
            return True
        q, k = self.queries, self.keys
        known = q.start is not None and k.start is not None
        return known and self.mask == causal and k.start + k.longest - 1 <= q.start  # type: ignore[operator]

    @property
    def limits(self) -> tuple[int | None, int | None]:
        """Number of keys to the left and right that a query may attend to; None: no limit."""
        mask = full if self.unlimited else cast(WindowMask, self.mask)
        return mask.left, mask.right

    @property
    def packed(self) -> bool:
        """Whether keys are packed and not empty, and the mask is a window around each query."""
        some = self.queries.longest > 0 and self.keys.longest > 0
        window = all(limit is None or limit >= 0 for limit in self.limits)
        return self.aligned and not self.keys.padded and some and window

    def scale(self, size: int) -> float:
        """Factor on q·k."""
        return cast(Dot, self.score).scale(size)


def fused(call: AttentionCall, q_BLHK: Tensor, k_BSHK: Tensor, v_BSHK: Tensor, **mask) -> Tensor:
    """torch's ``scaled_dot_product_attention`` on padded rows, (B, L, H, K) in and out.

    On a CPU it runs in fp32: bf16 is slower there, several times in the backward pass, even if
    matrix products in bf16 are faster.
    """
    if k_BSHK.shape[1] == 0:
        # Empty sums: zeros through which gradients flow, also to a bias.
        k, v = (for_each_head(x, q_BLHK.shape[2]) for x in (k_BSHK, v_BSHK))
        zeros = sum(m.sum() for m in mask.values() if is_bias(m))
        return torch.einsum("blhk,bshk,bshv->blhv", q_BLHK, k, v) + zeros
    dtype, q, k, v = q_BLHK.dtype, q_BLHK, k_BSHK, v_BSHK
    on_cpu = q.device.type == "cpu"
    if on_cpu and dtype in (torch.bfloat16, torch.float16):
        q, k, v = q.float(), k.float(), v.float()
    settings: dict[str, Any] = {"scale": call.scale(q.shape[-1]), "dropout_p": call.dropout}
    if q.shape[2] != k.shape[2]:
        settings["enable_gqa"] = True
    settings |= {name: m.to(q.dtype) if is_bias(m) else m for name, m in mask.items()}
    if any(is_bias(m) and m.requires_grad for m in mask.values()) and not q.requires_grad:
        q = q.detach().requires_grad_()  # or torch does not keep what the bias's gradient needs
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    if on_cpu:
        with torch.autocast("cpu", enabled=False):
            attended = F.scaled_dot_product_attention(q, k, v, **settings)
    else:
        with sdpa_kernel(ON_CUDA, set_priority=True):
            attended = F.scaled_dot_product_attention(q, k, v, **settings)
    return attended.transpose(1, 2).to(dtype)


def is_bias(mask: object) -> bool:
    """Whether a mask is a bias on scores, not a boolean table."""
    return isinstance(mask, Tensor) and mask.is_floating_point()


def fused_masked(
    call: AttentionCall,
    q_BLHK: Tensor,
    k_BSHK: Tensor,
    v_BSHK: Tensor,
    allowed_BLS: Tensor,
    bias_BHLS: Tensor | None = None,
) -> Tensor:
    """``fused`` with a boolean mask; a query without any allowed key gets zeros."""
    empty_BL = ~allowed_BLS.any(-1)
    mask = (allowed_BLS | empty_BL[:, :, None])[:, None]
    if bias_BHLS is not None:
        mask = bias_BHLS.masked_fill(~mask, -torch.inf)
    attended = fused(call, q_BLHK, k_BSHK, v_BSHK, attn_mask=mask)
    return attended.masked_fill(empty_BL[:, :, None, None], 0.0)


def fused_rows(call: AttentionCall, queries: Layout, keys: Layout, *qkv_THK: Tensor) -> Tensor:
    """``fused`` on packed rows, which are padded, with a mask only if one is needed."""
    q, k, v = (layout.pad(x) for layout, x in zip((queries, keys, keys), qkv_THK, strict=True))
    if call.biased:
        allowed_BLS = keys.real_BL[:, None] & call.mask(queries, keys)
        bias_BHLS = cast(Dot, call.score).position_bias(queries, keys)
        return queries.pack(fused_masked(call, q, k, v, allowed_BLS, bias_BHLS))
    if call.unlimited and keys.full:
        return queries.pack(fused(call, q, k, v))
    # In ragged rows padding comes after the keys: the causal mask excludes it.
    by_index = call.mask == causal and call.aligned and not call.unlimited
    if by_index and (keys.full or not keys.even):
        return queries.pack(fused(call, q, k, v, is_causal=True))
    if call.unlimited:
        attended = fused(call, q, k, v, attn_mask=keys.key_bias_BS[:, None, None])
        return queries.pack(attended.masked_fill(keys.empty_B[:, None, None, None], 0.0))
    allowed_BLS = keys.real_BL[:, None] & call.mask(queries, keys)
    return queries.pack(fused_masked(call, q, k, v, allowed_BLS))
