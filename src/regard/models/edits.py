"""Edits of a model as values: heads and layers off, vectors added, rows of attention forced.

``edit_module`` returns a module whose every run is edited, in any method and search. An edit knows
the layout of the batch, so it can choose tokens by their position in a row.
"""

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar, cast

import torch
from torch import Tensor, nn

from regard.ground.edits import without_head
from regard.ground.errors import BadInput
from regard.ground.layout import Layout
from regard.ground.tape import NULL_TAPE, ChainedTape, NullTape, Tape
from regard.models.trunk import StackModule
from regard.parts.attention import EncoderOutput

POOL = "pool"  # the pool of a model, beside its sides
Shape = tuple[int, ...]
AnyModule = TypeVar("AnyModule", bound=nn.Module)


@dataclass(frozen=True, eq=False)
class EditVector:
    """Vector of an edit, with the name under which it was read."""

    name: str
    values: Tensor


@dataclass(frozen=True, eq=False)
class AnyEdit:
    """Base class of edits: ``at`` is a value on the tape, a block, or its attention.

    The names of the values that it changes are ``at`` with one of the ``endings``. ``kind`` is the
    name of the class in files.
    """

    kind: ClassVar[str]
    endings: ClassVar[tuple[str, ...]] = ("",)
    at: str

    def edit(self, name: str, value: Tensor, layout: Layout) -> Tensor:
        """The value after the edit; ``layout`` is the layout of the tokens of its side."""
        raise NotImplementedError

    def check(self, shape: Shape, *, causal: bool) -> None:
        """Raise BadInput, which begins with a key, if values of this shape cannot be edited.

        ``causal``: they are weights of causal attention.
        """

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the values that are edited, if the model has them."""
        return tuple(self.at + ending for ending in self.endings)


@dataclass(frozen=True, eq=False)
class HeadOff(AnyEdit):
    """Head whose output is zero; attention stays in its fast kernel.

    Recurrent attention and pools have no outputs of heads: there, ``at`` names their weights.
    """

    kind: ClassVar[str] = "head-off"
    endings: ClassVar[tuple[str, ...]] = (".head_outputs",)
    head: int

    @property
    def names(self) -> tuple[str, ...]:
        return (self.at,) if self.at.endswith(".weights") else super().names

    def edit(self, name: str, value: Tensor, layout: Layout) -> Tensor:
        return without_head(self.head)(name, value)

    def check(self, shape: Shape, *, causal: bool) -> None:
        _check_index("head", self.head, shape[1], "heads")


@dataclass(frozen=True, eq=False)
class LayerOff(AnyEdit):
    """Block whose attention and feed-forward layer add nothing to the states."""

    kind: ClassVar[str] = "layer-off"
    endings: ClassVar[tuple[str, ...]] = (".attention.output", ".cross.output", ".mlp.output")

    def edit(self, name: str, value: Tensor, layout: Layout) -> Tensor:
        return torch.zeros_like(value)


@dataclass(frozen=True, eq=False)
class TokenEdit(AnyEdit):
    """Base class of edits of values of tokens: of all, or of those at positions ``tokens``."""

    vector: EditVector | None = None
    tokens: tuple[int, ...] | None = None

    def new_value(self, value: Tensor) -> Tensor:
        """The new value of every token."""
        raise NotImplementedError

    def edit(self, name: str, value: Tensor, layout: Layout) -> Tensor:
        new = self.new_value(value)
        if self.tokens is None:
            return new
        if len(value) != layout.tokens:
            raise BadInput(f"{name}: it has no row for each token; leave out tokens")
        chosen = torch.tensor(self.tokens, device=value.device)
        chosen_T = torch.isin(layout.positions_T.to(value.device), chosen)
        return torch.where(chosen_T.view(-1, *[1] * (value.dim() - 1)), new, value)

    def check(self, shape: Shape, *, causal: bool) -> None:
        if len(shape) > 3:
            raise BadInput("at: attention has no value for each token; use force-row or head-off")
        if self.vector is not None and (given := tuple(self.vector.values.shape)) != shape[1:]:
            size, expected = (" × ".join(map(str, each)) for each in (given, shape[1:]))
            raise BadInput(f"vector: {self.vector.name} has size {size}, but {self.at} {expected}")

    def _vector_for(self, value: Tensor) -> Tensor:
        assert self.vector is not None
        return self.vector.values.to(value)


@dataclass(frozen=True, eq=False)
class Addition(TokenEdit):
    """Vector, times ``scale``, that is added to the values of tokens: a steering vector."""

    kind: ClassVar[str] = "add"
    scale: float = 1.0

    def __post_init__(self) -> None:
        if self.vector is None:
            raise BadInput('vector: missing; write vector = "FILE.safetensors:NAME"')

    def new_value(self, value: Tensor) -> Tensor:
        return value + self.scale * self._vector_for(value)


@dataclass(frozen=True, eq=False)
class Replacement(TokenEdit):
    """Vector, or one number, in place of the values of tokens."""

    kind: ClassVar[str] = "replace"
    value: float | None = None

    def __post_init__(self) -> None:
        if (self.vector is None) == (self.value is None):
            raise BadInput("vector, value: write one of the two")

    def new_value(self, value: Tensor) -> Tensor:
        if self.value is not None:
            return torch.full_like(value, self.value)
        return self._vector_for(value).expand_as(value)


@dataclass(frozen=True, eq=False)
class RowForced(AnyEdit):
    """Row of attention weights: the query at position ``row`` attends to one key only.

    An input without that key, to which nothing attends, is left as it is.
    """

    kind: ClassVar[str] = "force-row"
    head: int
    row: int
    column: int

    def edit(self, name: str, value: Tensor, layout: Layout) -> Tensor:
        if self.column >= value.shape[-1]:
            return value
        places_BL = layout.pad(layout.positions_T + 1) - 1  # -1 at padding
        has_key_B = (value[..., self.column] > 0).flatten(1).any(1)
        chosen_BL = (places_BL.to(value.device) == self.row) & has_key_B[:, None]
        forced_S = torch.zeros_like(value[0, 0, 0])
        forced_S[self.column] = 1
        value = value.clone()
        value[:, self.head] = torch.where(chosen_BL[..., None], forced_S, value[:, self.head])
        return value

    def check(self, shape: Shape, *, causal: bool) -> None:
        if len(shape) != 4 or not self.at.endswith("weights"):
            raise BadInput("at: force-row needs attention weights, such as NAME.attention.weights")
        _check_index("head", self.head, shape[1], "heads")
        if causal and self.column > self.row:
            fault = f"{self.column} comes after row {self.row}, and attention is causal"
            raise BadInput(f"column: {fault}; write at most {self.row}")


KINDS: Mapping[str, type[AnyEdit]] = {
    edit.kind: edit for edit in (HeadOff, LayerOff, Addition, Replacement, RowForced)
}
"""Edits by their name in files."""


def _check_index(key: str, index: int, size: int, kinds: str) -> None:
    if index >= size:
        raise BadInput(f"{key}: {index} is too high: there are {size} {kinds}, counted from 0")


def _tape_of(edits: Sequence[AnyEdit], layout: Layout) -> Tape:
    """Tape that applies edits, in order, to the values of tokens of this layout."""

    def edit(name: str, value: Tensor) -> Tensor:
        for each in edits:
            if name in each.names:
                value = each.edit(name, value, layout)
        return value

    return Tape(edits=dict.fromkeys((name for each in edits for name in each.names), edit))


class EditedStack(StackModule):
    """Stack whose values are edited in every run, before the tape of the caller sees them."""

    edited = True

    def __init__(self, stack: StackModule, side: str, edits: Sequence[AnyEdit]):
        super().__init__()
        self.stack, self.side, self.edits = stack, side, tuple(edits)
        self.attends = stack.attends

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("stack"), name)

    def forward(
        self, tokens: Tensor, layout: Layout, *, tape: NullTape = NULL_TAPE, **more: Any
    ) -> Any:
        more.pop("first", None)  # all states are computed, as with a tape
        edits = _tape_of(self.edits, self.stack.embed.layout_of(tokens, layout)).under(self.side)
        return self.stack(tokens, layout, tape=ChainedTape(edits, tape), **more)

    def new_state(self, rows: int) -> object:
        return self.stack.new_state(rows)


class EditedPool(nn.Module):
    """Pool whose attention and output are edited in every run."""

    def __init__(self, pool: nn.Module, edits: Sequence[AnyEdit]):
        super().__init__()
        self.pool, self.edits = pool, tuple(edits)

    def forward(self, encoded: EncoderOutput, *, tape: NullTape = NULL_TAPE) -> Tensor:
        edits = _tape_of(self.edits, encoded.layout).under(POOL)
        return edits("output", self.pool(encoded, tape=ChainedTape(edits, tape)))


def edit_module(module: AnyModule, sides: Sequence[str], edits: Sequence[AnyEdit]) -> AnyModule:
    """Copy of a model's module, with the same weights, whose runs are edited."""
    edited = copy(module)
    edited._modules = dict(module._modules)
    for part in (*sides, POOL):
        of_part = [edit for edit in edits if edit.at.startswith(f"{part}.")]
        if of_part and part == POOL:
            edited._modules[part] = EditedPool(getattr(module, part), of_part)
        elif of_part:
            stack = cast(StackModule, getattr(module, part))
            edited._modules[part] = EditedStack(stack, part, of_part)
        if of_part:
            cast(Any, edited).capturable = False
    return edited
