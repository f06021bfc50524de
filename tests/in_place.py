"""A check that a step reads nothing from the host."""

import torch
from torch.overrides import TorchFunctionMode


class InPlace(TorchFunctionMode):
    """Refuses to make tensors of numbers on the host, as a captured CUDA graph does."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func in (torch.Tensor.new_tensor, torch.tensor, torch.as_tensor, torch.from_numpy):
            raise AssertionError(f"{func.__name__}: copied from the host")
        return func(*args, **(kwargs or {}))
