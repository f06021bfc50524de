"""Edits of values for a tape: heads off, rows of attention forced, values replaced or added to."""

from torch import Tensor

from regard.ground.checks import check_whole
from regard.ground.errors import BadInput
from regard.ground.tape import Edit

AXES = {"weights": ("inputs", "head", "query", "key"), "head_outputs": ("tokens", "head", "value")}
"""Axes of the values of attention that have one for heads, by the last part of their name."""


def _copied(name: str, value: Tensor, **places: int) -> Tensor:
    """Copy of a value of attention; BadInput if it lacks that head, query or key."""
    axes = AXES.get(name.rpartition(".")[2], ())
    if len(axes) != value.dim() or not places.keys() <= {*axes}:
        raise BadInput(f"{name}: these are not attention weights, so no head can be edited")
    for kind, index in places.items():
        check_whole(f"{name}: a {kind}", index, 0, value.shape[axes.index(kind)] - 1)
    return value.clone()


def without_head(head: int) -> Edit:
    """Edit that sets one head to zero: in ``weights`` (B, H, L, S), or ``head_outputs`` (T, H, K).

    Both have the same effect; with the second, attention stays in its fast kernel.
    """

    def edit(name: str, value: Tensor) -> Tensor:
        value = _copied(name, value, head=head)
        value[:, head] = 0
        return value

    return edit


def forced_row(head: int, query: int, key: int) -> Edit:
    """Edit of weights (B, H, L, S): one query of one head attends to one key only."""

    def edit(name: str, weights_BHLS: Tensor) -> Tensor:
        weights_BHLS = _copied(name, weights_BHLS, head=head, query=query, key=key)
        weights_BHLS[:, head, query] = 0
        weights_BHLS[:, head, query, key] = 1
        return weights_BHLS

    return edit
