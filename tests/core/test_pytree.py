"""Trees of tensors: every tensor is found, in one order; unknown containers are refused."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor

from regard.core.pytree import TensorTree, map_tensors, tensors_in, without_caches


class Pair(NamedTuple):
    """Two trees."""

    left: Any
    right: Any


@dataclass(frozen=True, eq=False)
class Leaf(TensorTree):
    """A tensor, and what is computed from it once."""

    x: Tensor
    count: int = 3

    @cached_property
    def doubled(self) -> Tensor:
        """Twice the tensor."""
        return self.x * 2


@dataclass(frozen=True, eq=False)
class Whole(TensorTree):
    """All containers that are known."""

    by_name: dict[str, Any]
    parts: tuple[Any, ...]
    nothing: None = None
    figures: tuple[Any, ...] = field(default=(1, 2.5, "text", True, np.int64(3), np.float32(0.5)))


def whole() -> tuple[Whole, list[Tensor]]:
    """A tree, and its tensors in order."""
    one, two, three, four = (torch.full((size,), float(size)) for size in range(1, 5))
    by_name = {"b": Pair(two, Leaf(three)), "a": one}
    return Whole(by_name, (None, four)), [one, two, three, four]


def test_every_tensor_is_found_once_in_the_order_of_sorted_keys():
    tree, tensors = whole()
    assert [id(tensor) for tensor in tensors_in(tree)] == [id(tensor) for tensor in tensors]


def test_mapped_trees_have_the_same_form():
    tree, tensors = whole()
    mapped = map_tensors(lambda tensor: tensor + 1, tree)
    assert isinstance(mapped, Whole) and isinstance(mapped.by_name["b"], Pair)
    assert isinstance(mapped.by_name["b"].right, Leaf)
    assert mapped.by_name["b"].right.count == 3
    assert (mapped.nothing, mapped.figures) == (None, tree.figures)
    assert all(map(torch.equal, tensors_in(mapped), [tensor + 1 for tensor in tensors]))
    assert all(map(torch.equal, tensors_in(tree), tensors))


def test_a_tree_moves_as_a_whole():
    tree, _ = whole()
    assert {tensor.device.type for tensor in tensors_in(tree.to("meta"))} == {"meta"}
    assert {tensor.device.type for tensor in tensors_in(tree)} == {"cpu"}


def test_caches_are_left_behind():
    leaf = Leaf(torch.ones(2))
    assert leaf.doubled.sum() == 4
    fresh = without_caches(leaf)
    assert "doubled" not in vars(fresh) and fresh.x is leaf.x
    assert torch.equal(fresh.doubled, leaf.doubled)


@pytest.mark.parametrize(
    "container", [[torch.ones(1)], {torch.ones(1)}, np.ones(1), iter(()), object()]
)
def test_an_unknown_container_is_refused(container):
    for tree in (container, (container,), {"a": container}, Leaf(container)):
        with pytest.raises(TypeError, match=f"a {type(container).__name__} cannot be part of"):
            tensors_in(tree)
