"""Random numbers on the device, a function of a key for each image and the number of the draw.

SplitMix64, as in ``counter_rng``, by operations of torch: no state and no generator, so that a
captured step draws for each batch what an eager one would.
"""

import torch
from torch import Tensor

GOLDEN = 0x9E3779B97F4A7C15 - 2**64  # as signed numbers of 64 bits
FIRST, SECOND = 0xBF58476D1CE4E5B9 - 2**64, 0x94D049BB133111EB - 2**64


def _shifted(values: Tensor, places: int) -> Tensor:
    """A shift to the right that fills with zeros."""
    return (values >> places) & ((1 << (64 - places)) - 1)


def _mixed(values: Tensor) -> Tensor:
    values = (values ^ _shifted(values, 30)) * FIRST
    values = (values ^ _shifted(values, 27)) * SECOND
    return values ^ _shifted(values, 31)


class Draws:
    """Uniform numbers of each key, one after the other: the same for the same key."""

    def __init__(self, keys_B: Tensor):
        self.keys_B, self.counter = keys_B, 0

    def uniform(self, low: float = 0.0, high: float = 1.0) -> Tensor:
        """(B,) numbers from ``low`` to below ``high``."""
        self.counter += 1
        step = (self.counter * GOLDEN + 2**63) % 2**64 - 2**63  # as torch's integers overflow
        bits = _shifted(_mixed(self.keys_B + step), 40)
        return low + (high - low) * bits.to(torch.float32) * 2.0**-24
