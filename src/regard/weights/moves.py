"""Moves between the tensors of a file and of the model, which change no elements.

``read`` takes a list of tensors of a file and returns tensors of the model; ``write`` undoes it.
"""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor


class Move(Protocol):
    """Reversible step of a rule."""

    def read(self, tensors: list[Tensor]) -> list[Tensor]:
        """Convert tensors of the file to tensors of the model."""

    def write(self, tensors: list[Tensor]) -> list[Tensor]:
        """Convert tensors of the model to tensors of the file."""


@dataclass(frozen=True)
class Transpose:
    """Permutation of axes: the model has these axes of the file's tensor; default: reversed.

    Reversed axes transpose a matrix and leave a bias as it is.
    """

    axes: tuple[int, ...] | None = None

    def read(self, tensors: list[Tensor]) -> list[Tensor]:
        return [tensor.permute(self.axes or _reverse(tensor)) for tensor in tensors]

    def write(self, tensors: list[Tensor]) -> list[Tensor]:
        return [tensor.permute(_inverse(self.axes or _reverse(tensor))) for tensor in tensors]


@dataclass(frozen=True)
class Reshape:
    """Change of shape from ``file`` to ``ours`` (the model's); -1 is the rest."""

    file: tuple[int, ...]
    ours: tuple[int, ...]

    def read(self, tensors: list[Tensor]) -> list[Tensor]:
        return [tensor.reshape(self.ours) for tensor in tensors]

    def write(self, tensors: list[Tensor]) -> list[Tensor]:
        return [tensor.reshape(self.file) for tensor in tensors]


@dataclass(frozen=True)
class Split:
    """Split of a tensor of the file into several, with these shares of an axis."""

    shares: tuple[int, ...]
    axis: int = 0

    def read(self, tensors: list[Tensor]) -> list[Tensor]:
        (tensor,) = tensors
        unit, rest = divmod(tensor.shape[self.axis], sum(self.shares))
        if rest:
            raise ValueError(f"{list(tensor.shape)} is not split into shares {self.shares}")
        return list(tensor.split([unit * share for share in self.shares], self.axis))

    def write(self, tensors: list[Tensor]) -> list[Tensor]:
        return [torch.cat(tensors, self.axis)]


class Join(Split):
    """Concatenation of several tensors of the file, each with its share of an axis."""

    read, write = Split.write, Split.read


def _reverse(tensor: Tensor) -> tuple[int, ...]:
    return tuple(reversed(range(tensor.dim())))


def _inverse(order: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sorted(range(len(order)), key=order.__getitem__))
