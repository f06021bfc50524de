"""Programmatic dependent launch: a kernel starts before the one in front of it has ended.

From Hopper on. The gap between two kernels is gone, and what no earlier kernel writes (weights) can
be read meanwhile. A kernel waits for all earlier ones before it reads or writes anything else.
"""

from functools import cache

import torch

try:
    import triton.language as tl

    HAS_WAIT = hasattr(tl.extra.cuda, "gdc_wait")
except (ImportError, AttributeError):
    HAS_WAIT = False


def start_settings(early: bool, device: torch.device) -> dict[str, bool]:
    """Arguments of a launch: whether it starts early, if the device can do that."""
    if early and can_start_early(device):
        return {"early": True, "launch_pdl": True}
    return {"early": False}


@cache
def can_start_early(device: torch.device) -> bool:
    """Whether the device and Triton have it."""
    return HAS_WAIT and device.type == "cuda" and torch.cuda.get_device_capability(device) >= (9, 0)
