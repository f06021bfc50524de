"""Devices by name, and the random generators of all of them."""

import torch

from regard.ground.errors import BadInput
from regard.ground.machine import has


def device_named(name: str | None, local: int = 0) -> torch.device:
    """``cpu``, ``cuda`` (number ``local``) or ``cuda:1``; default: the GPU if there is one."""
    cuda = has("cuda")
    try:
        device = torch.device(name or ("cuda" if cuda else "cpu"))
    except RuntimeError:
        raise BadInput(f"device {name}: choose cpu, cuda or cuda:NUMBER") from None
    if device.type == "cpu":
        return device
    if device.type != "cuda" or not cuda:
        raise BadInput(f"device {name}: this machine has no such device")
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
