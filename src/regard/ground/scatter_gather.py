"""Rows of a tensor moved to other places: each way is the other's gradient."""

import torch
from torch import Tensor
from torch.autograd import Function


class _Move(Function):
    """Spread rows of x over ``size`` slots of zeros, or gather them back: each undoes the other."""

    @staticmethod
    def forward(ctx, x: Tensor, slots_T: Tensor, size: int | None) -> Tensor:
        ctx.save_for_backward(slots_T)
        ctx.back = x.shape[0] if size is None else None
        return _moved(x, slots_T, size)

    @staticmethod
    def backward(ctx, gradient: Tensor):
        (slots_T,) = ctx.saved_tensors
        return _moved(gradient, slots_T, ctx.back), None, None


def scatter_rows(x: Tensor, slots_T: Tensor, size: int) -> Tensor:
    """Row i of x at place ``slots_T[i]`` of ``size`` places; the others are zeros."""
    return _Move.apply(x, slots_T, size)


def gather_rows(x: Tensor, slots_T: Tensor) -> Tensor:
    """The rows at ``slots_T``, of which no two are the same."""
    return _Move.apply(x, slots_T, None)


def _moved(x: Tensor, slots_T: Tensor, size: int | None) -> Tensor:
    if size is None:
        return x.index_select(0, slots_T)
    zeros = x.new_zeros(size, *x.shape[1:])
    if torch.compiler.is_compiling():  # in place, torch 2.11 loses the gradient
        return zeros.index_copy(0, slots_T, x)
    return zeros.index_copy_(0, slots_T, x)
