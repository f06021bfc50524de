"""Rotary positions (RoPE; Su et al., 2021): queries and keys turned by angles of their positions.

The product of a query and a key that are turned so depends on the distance of their positions only.
Kernels and KV caches get queries and keys that are turned already: the score is a dot product.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import torch
from torch import Tensor

from regard.core.errors import BadInput
from regard.core.layout import Layout
from regard.layers.attend import ScaledDot
from regard.layers.kernels import elementwise


@dataclass(frozen=True)
class LinearScaling:
    """Positions divided by a ``factor`` (Chen et al., 2023, arXiv:2306.15595)."""

    factor: float

    def __call__(self, frequencies_F: Tensor) -> Tensor:
        """Frequencies of a longer context."""
        return frequencies_F / self.factor


@dataclass(frozen=True)
class Llama3Scaling:
    """Low frequencies divided by a ``factor``, high ones unchanged (Llama 3.1, 2024).

    A frequency is low if its wavelength is above ``original`` / ``low``, the context that the model
    was first trained on, and high if it is below ``original`` / ``high``; between the two, both
    values are mixed.
    """

    factor: float
    low: float
    high: float
    original: int

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise BadInput(
                f"low ({self.low}) must be below high ({self.high}) in Llama 3's scaling"
            )

    def __call__(self, frequencies_F: Tensor) -> Tensor:
        """Frequencies of a longer context."""
        waves_F = 2 * math.pi / frequencies_F
        share_F = (self.original / waves_F - self.low) / (self.high - self.low)
        mixed_F = (1 - share_F) * frequencies_F / self.factor + share_F * frequencies_F
        scaled_F = torch.where(share_F < 0, frequencies_F / self.factor, mixed_F)
        return torch.where(share_F > 1, frequencies_F, scaled_F)


Scaling = LinearScaling | Llama3Scaling | None
SCALINGS: dict[str, Callable[..., Scaling]] = {
    "NoneType": lambda: None,
    "LinearScaling": LinearScaling,
    "Llama3Scaling": Llama3Scaling,
}


@dataclass(frozen=True)
class Rotation:
    """Frequencies of the angles: base^(-2i / size) for the first ``size`` dimensions of a head."""

    size: int
    base: float = 10_000.0
    scaling: Scaling = None

    def frequencies(self, device: torch.device) -> Tensor:
        """The angle of one position, (size / 2,), in single precision as all libraries have it."""
        even = torch.arange(0, self.size, 2, device=device, dtype=torch.float32)
        frequencies_F = 1.0 / self.base ** (even / self.size)
        return frequencies_F if self.scaling is None else self.scaling(frequencies_F)

    def angles(self, positions_T: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines and sines of the angles of positions, (T, size / 2).

        A compiled model computes them once for all layers, not once for each element of a layer; an
        exported one has no operators of ours.
        """
        if torch.compiler.is_compiling() and not torch.compiler.is_exporting():
            numbers = [] if self.scaling is None else [*map(float, vars(self.scaling).values())]
            kind = type(self.scaling).__name__
            return angles_once(positions_T, self.size, self.base, kind, numbers)
        angles_TF = positions_T[:, None].float() * self.frequencies(positions_T.device)
        return angles_TF.cos(), angles_TF.sin()


@torch.library.custom_op("regard::rotary_angles", mutates_args=())
def angles_once(
    positions_T: Tensor, size: int, base: float, kind: str, numbers: list[float]
) -> tuple[Tensor, Tensor]:
    """``Rotation.angles`` as one operator, whose arguments can only be numbers and strings."""
    scaling = SCALINGS[kind](*numbers)
    return Rotation(size, base, scaling).angles(positions_T)


@angles_once.register_fake
def _(
    positions_T: Tensor, size: int, base: float, kind: str, numbers: list[float]
) -> tuple[Tensor, Tensor]:
    empty_2TF = positions_T.new_empty((2, len(positions_T), size // 2), dtype=torch.float32)
    return empty_2TF[0].clone(), empty_2TF[1].clone()


def turn(x_THK: Tensor, cosine_TF: Tensor, sine_TF: Tensor) -> Tensor:
    """Queries or keys turned by the angles of their positions (Su et al., 2021, eq. 34).

    Of 2F dimensions, i is paired with i + F, as in Llama; others are unchanged.
    """
    precise, size = torch.promote_types(x_THK.dtype, torch.float32), 2 * cosine_TF.shape[1]
    cosine, sine = (
        torch.cat([part_TF, part_TF], dim=1)[:, None].to(precise)
        for part_TF in (cosine_TF, sine_TF)
    )
    x, rest = x_THK[..., :size].to(precise), x_THK[..., size:]
    first, second = x.chunk(2, dim=-1)
    turned = torch.addcmul(x * cosine, torch.cat([-second, first], dim=-1), sine).to(x_THK.dtype)
    return torch.cat([turned, rest], dim=-1) if rest.shape[-1] else turned


class RotaryDot(ScaledDot):
    """Scaled dot product of queries and keys that are turned by a ``rotation``."""

    places: ClassVar[bool] = True

    def __init__(self, rotation: Rotation):
        super().__init__()
        self.rotation = rotation

    def place(self, x_THK: Tensor, layout: Layout) -> Tensor:
        if x_THK.is_cuda and elementwise.fits(x_THK):
            frequencies_F = constant_frequencies(self.rotation, x_THK.device)
            return elementwise.turned(x_THK, layout.positions_T, frequencies_F)
        return turn(x_THK, *self.rotation.angles(layout.positions_T))


@cache
def constant_frequencies(rotation: Rotation, device: torch.device) -> Tensor:
    """Frequencies that all layers of all models share."""
    with torch.inference_mode(False):
        return rotation.frequencies(device)
