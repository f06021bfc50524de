"""A linear layer made from another for inference, with its weights as one product wants them."""

from typing import NoReturn

from torch import Tensor, nn


class InferenceLinear(nn.Module):
    """What all of them share; ``nn.Linear`` stays the form that is trained and saved."""

    def __init__(self, linear: nn.Linear):
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.bias_F: Tensor | None = None if linear.bias is None else linear.bias.detach()

    def extra_repr(self) -> str:
        return f"{self.in_features}, {self.out_features}, bias={self.bias_F is not None}"

    def _save_to_state_dict(self, *_) -> NoReturn:
        raise TypeError(f"{type(self).__name__} is not saved: save the model it was made from")

    def __reduce_ex__(self, _) -> NoReturn:
        raise TypeError(f"{type(self).__name__} is not copied: copy the model it was made from")
