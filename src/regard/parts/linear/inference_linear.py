"""Linear layers for inference, with weights packed for one kind of product."""

from typing import NoReturn

from torch import Tensor, nn


class InferenceLinear(nn.Module):
    """Base class; an ``nn.Linear`` is what is trained and saved."""

    def __init__(self, linear: nn.Linear):
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.bias_F: Tensor | None = None if linear.bias is None else linear.bias.detach()

    def extra_repr(self) -> str:
        return f"{self.in_features}, {self.out_features}, bias={self.bias_F is not None}"

    def _save_to_state_dict(self, *_) -> NoReturn:
        raise TypeError(f"{type(self).__name__} cannot be saved; save the original model")

    def __reduce_ex__(self, _) -> NoReturn:
        raise TypeError(f"{type(self).__name__} cannot be copied; copy the original model")
