"""Edits of attention weights for a tape."""

from torch import Tensor

from regard.ground.checks import check_whole
from regard.ground.errors import BadInput
from regard.ground.tape import Edit


def _copied_weights(name: str, weights_BHLS: Tensor, *places: int) -> Tensor:
    """Copy of attention weights; BadInput if they lack that head, query or key."""
    if name.rpartition(".")[2] != "weights" or weights_BHLS.dim() != 4:
        raise BadInput(f"{name}: these are not attention weights, so no head can be edited")
    kinds = ("head", "query", "key")
    for kind, index, size in zip(kinds, places, weights_BHLS.shape[1:], strict=False):
        check_whole(f"{name}: a {kind}", index, 0, size - 1)
    return weights_BHLS.clone()


def without_head(head: int) -> Edit:
    """Edit that sets the weights (B, H, L, S) of one head to zero."""

    def edit(name: str, weights_BHLS: Tensor) -> Tensor:
        weights_BHLS = _copied_weights(name, weights_BHLS, head)
        weights_BHLS[:, head] = 0
        return weights_BHLS

    return edit


def forced_row(head: int, query: int, key: int) -> Edit:
    """Edit of weights (B, H, L, S): one query of one head attends to one key only."""

    def edit(name: str, weights_BHLS: Tensor) -> Tensor:
        weights_BHLS = _copied_weights(name, weights_BHLS, head, query, key)
        weights_BHLS[:, head, query] = 0
        weights_BHLS[:, head, query, key] = 1
        return weights_BHLS

    return edit
