"""Moves: how the tensors of a file become ours, and back. A move only moves elements.

``read`` takes a list of tensors of a file and gives a list of ours; ``write`` undoes it.
"""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor


class Move(Protocol):
    """A reversible step of a rule."""

    def read(self, tensors: list[Tensor]) -> list[Tensor]:
        """From the file to ours."""

    def write(self, tensors: list[Tensor]) -> list[Tensor]:
        """From ours to the file."""


@dataclass(frozen=True)
class Transpose:
    """Axes in another order: ours are these axes of the file's; by default all in reverse.

    In reverse a matrix changes rows and columns, and a bias stays as it is.
    """

    axes: tuple[int, ...] | None = None

    def read(self, tensors: list[Tensor]) -> list[Tensor]:
        return [tensor.permute(self.axes or _reverse(tensor)) for tensor in tensors]

    def write(self, tensors: list[Tensor]) -> list[Tensor]:
        return [tensor.permute(_inverse(self.axes or _reverse(tensor))) for tensor in tensors]


@dataclass(frozen=True)
class Reshape:
    """The same elements in the same order, in the shape that each column has; -1 is the rest."""

    file: tuple[int, ...]
    ours: tuple[int, ...]

    def read(self, tensors: list[Tensor]) -> list[Tensor]:
        return [tensor.reshape(self.ours) for tensor in tensors]

    def write(self, tensors: list[Tensor]) -> list[Tensor]:
        return [tensor.reshape(self.file) for tensor in tensors]


@dataclass(frozen=True)
class Split:
    """A tensor of the file becomes several, with these shares of an axis."""

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
    """Several tensors of the file become one, each with its share of an axis."""

    read, write = Split.write, Split.read


def _reverse(tensor: Tensor) -> tuple[int, ...]:
    return tuple(reversed(range(tensor.dim())))


def _inverse(order: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sorted(range(len(order)), key=order.__getitem__))
