"""Devices by name."""

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
