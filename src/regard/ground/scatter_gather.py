"""Scatter and gather rows of a tensor; each is the gradient of the other."""

import torch
from torch import Tensor
from torch.autograd import Function


class _ScatterGather(Function):
    """Scatter rows of x into ``size`` rows of zeros, or gather them: each inverts the other."""

    @staticmethod
    def forward(ctx, x: Tensor, slots_T: Tensor, size: int | None) -> Tensor:
        ctx.save_for_backward(slots_T)
        ctx.back = x.shape[0] if size is None else None
        return _move(x, slots_T, size)

    @staticmethod
    def backward(ctx, gradient: Tensor):
        (slots_T,) = ctx.saved_tensors
        return _move(gradient, slots_T, ctx.back), None, None


def scatter_rows(x: Tensor, slots_T: Tensor, size: int) -> Tensor:
    """A tensor of ``size`` rows with row i of x at ``slots_T[i]``; the others are zeros."""
    return _ScatterGather.apply(x, slots_T, size)


def gather_rows(x: Tensor, slots_T: Tensor) -> Tensor:
    """The rows at ``slots_T``, which must be distinct."""
    return _ScatterGather.apply(x, slots_T, None)


def _move(x: Tensor, slots_T: Tensor, size: int | None) -> Tensor:
    if size is None:
        return x.index_select(0, slots_T)
    zeros = x.new_zeros(size, *x.shape[1:])
    if torch.compiler.is_compiling():  # in place, torch 2.11 loses the gradient
        return zeros.index_copy(0, slots_T, x)
    return zeros.index_copy_(0, slots_T, x)
