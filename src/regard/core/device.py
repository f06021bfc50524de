"""Devices by name, their random generators, and modules without initial weights."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext

import torch
from torch import Tensor
from torch.nn import init
from torch.overrides import TorchFunctionMode, handle_torch_function, has_torch_function_unary

from regard.core.errors import BadInput
from regard.core.machine import has


def draw_truncated(weights: Tensor, std: float, cutoff: float) -> Tensor:
    """Draw weights from a normal distribution without what is beyond ``cutoff`` deviations.

    Without draws torch's own function, which repeats them until all are within, would never end.
    """
    if has_torch_function_unary(weights):
        return handle_torch_function(draw_truncated, (weights,), weights, std, cutoff)
    return init.trunc_normal_(weights, std=std, a=-cutoff * std, b=cutoff * std)


DRAWS = {
    Tensor.normal_,
    Tensor.uniform_,
    init.normal_,
    init.uniform_,
    init.kaiming_uniform_,
    draw_truncated,
}


@contextmanager
def uninitialised(device: torch.device | str) -> Iterator[None]:
    """Block in which modules are built on a device without drawing random weights."""
    device = torch.device(device)
    default = device == torch.get_default_device()  # a context costs time at every call of torch
    with nullcontext() if default else device, _NoDraws():
        yield


class _NoDraws(TorchFunctionMode):
    """Mode without random draws, which take milliseconds even on the meta device."""

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


def device_named(name: str | None, local: int = 0) -> torch.device:
    """Device ``cpu``, ``cuda`` (number ``local``) or ``cuda:1``; default: a GPU if there is any."""
    cuda = has("cuda")
    try:
        device = torch.device(name or ("cuda" if cuda else "cpu"))
    except RuntimeError:
        raise BadInput(f"device {name}: choose cpu, cuda or cuda:NUMBER") from None
    if device.type == "cpu":
        return device
    if device.type != "cuda" or not cuda:
        raise BadInput(f"device {name}: this machine has no such device; choose cpu")
    number = local if device.index is None else device.index
    if number >= torch.cuda.device_count():
        raise BadInput(f"device {name}: this machine has {torch.cuda.device_count()} GPUs")
    return torch.device("cuda", number)


def seed_generators(seed: int) -> None:
    """Seed the generators of the CPU and of CUDA.

    ``torch.manual_seed`` also queues a call for every kind of device that is not there, with the
    text of the stack: up to milliseconds, and memory that is never freed.
    """
    torch.default_generator.manual_seed(seed)
    if has("cuda"):
        torch.cuda.manual_seed_all(seed)
