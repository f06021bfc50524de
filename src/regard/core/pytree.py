"""Nested values that hold tensors: dataclasses, tuples and dicts, walked in one order.

Batches and carried states are such values. A container of any other type is an error: a tensor in
it would not be moved, and a replayed CUDA graph would read the tensor of the first batch.
"""

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import Any, Self, TypeVar

import numpy as np
import torch
from torch import Tensor

Tree = TypeVar("Tree")

CONSTANTS = (bool, int, float, str, np.generic)


def map_tensors(function: Callable[[Tensor], Tensor], tree: Any) -> Any:
    """Apply ``function`` to each tensor of a tree; dicts in the order of their sorted keys.

    Dataclasses are built anew, without the values that they have cached.
    """
    if tree is None or isinstance(tree, CONSTANTS):
        return tree
    if isinstance(tree, Tensor):
        return function(tree)
    if isinstance(tree, dict):
        return {name: map_tensors(function, tree[name]) for name in sorted(tree)}
    if isinstance(tree, tuple) and {*map(type, tree)}.issubset(CONSTANTS):  # lengths of rows
        return tree
    if isinstance(tree, tuple):  # named tuples are built by tuple.__new__ as well
        return tuple.__new__(type(tree), [map_tensors(function, part) for part in tree])
    if is_dataclass(tree):
        parts = {f.name: map_tensors(function, getattr(tree, f.name)) for f in fields(tree)}
        return replace(tree, **parts)  # type: ignore[type-var]
    raise TypeError(f"a {type(tree).__name__} cannot be part of a batch or a carried state")


def tensors_in(tree: object) -> list[Tensor]:
    """All tensors of a tree, in the order of ``map_tensors``."""
    tensors: list[Tensor] = []

    def note(tensor: Tensor) -> Tensor:
        tensors.append(tensor)
        return tensor

    map_tensors(note, tree)
    return tensors


def without_caches(tree: Tree) -> Tree:
    """Copy of a tree with the same tensors, without values cached in its objects."""
    return map_tensors(lambda tensor: tensor, tree)


def move_tensor(tensor: Tensor, device: torch.device | str) -> Tensor:
    """Copy to ``device`` that does not wait for the device."""
    if torch.device(device).type == "cuda" and tensor.device.type == "cpu":
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)


class AsyncCopy:
    """Asynchronous device-to-host copy of a tensor."""

    def __init__(self, value: Tensor):
        self.copy = value.to("cpu", non_blocking=True, copy=True)
        self.event = torch.cuda.Event() if value.is_cuda else None
        if self.event is not None:
            self.event.record(torch.cuda.current_stream(value.device))

    def read(self) -> Tensor:
        """Copied tensor, after waiting for the copy."""
        if self.event is not None:
            self.event.synchronize()
        return self.copy


class TensorTree:
    """Base class of dataclasses of tensors and of other trees."""

    def to(self, device: torch.device | str) -> Self:
        """Copy of the tree on ``device``."""
        return map_tensors(lambda tensor: move_tensor(tensor, device), self)
