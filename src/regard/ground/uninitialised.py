"""Modules without initial values: for weights that are loaded afterwards, or only counted."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.nn import init
from torch.overrides import TorchFunctionMode

DRAWS = {Tensor.normal_, Tensor.uniform_, init.normal_, init.uniform_, init.kaiming_uniform_}


@contextmanager
def uninitialised(device: torch.device | str) -> Iterator[None]:
    """Modules built here are on that device, and their random weights are never drawn."""
    with torch.device(device), _NoDraws():
        yield


class _NoDraws(TorchFunctionMode):
    """On the meta device a draw takes milliseconds, on others a time that grows with the model."""

    def __torch_function__(
        self,
        function: Callable[..., object],
        types: object,
        args: tuple[object, ...] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        kwargs = kwargs or {}
        if function in DRAWS:
            return args[0] if args else kwargs["tensor"]  # as torch.nn.init passes it
        return function(*args, **kwargs)
