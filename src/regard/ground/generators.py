"""Torch's random generators."""

import torch

from regard.ground.machine import has


def seed_generators(seed: int) -> None:
    """Seed the generators of the CPU and of CUDA.

    ``torch.manual_seed`` also queues a call for every kind of device that is not there, with the
    text of the stack: up to milliseconds, and memory that is never freed.
    """
    torch.default_generator.manual_seed(seed)
    if has("cuda"):
        torch.cuda.manual_seed_all(seed)
