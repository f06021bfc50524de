"""Edits of a model as values: heads and layers off, vectors added, rows of attention forced.

A file of edits (TOML) has a table ``[[edit]]`` for each edit, with its ``kind``, the place ``at``
of the values on the tape, and the keys of its kind. Vectors are in safetensors files, relative to
the file. A hash identifies a list of edits.

``edit_module`` returns a module whose every run is edited, in any method and search. An edit knows
the layout of the batch, so it can choose tokens by their position in a row.
"""

import hashlib
import json
import tomllib
from collections.abc import Callable, Collection, Mapping, Sequence
from copy import copy
from dataclasses import MISSING, dataclass, fields
from difflib import get_close_matches
from math import isfinite
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar, cast

import torch
from torch import Tensor, nn

from regard.core.checks import check_number, check_whole
from regard.core.errors import BadInput, did_you_mean, shown
from regard.core.files import read_bytes
from regard.core.layout import Layout
from regard.core.tape import NULL_TAPE, ChainedTape, Edit, NullTape, Tape
from regard.layers.attention import EncoderOutput
from regard.models.encoder_decoder import ModelFacts
from regard.models.trunk import StackModule
from regard.weights.files import read_tensors

BESIDE = "edits.toml"  # the name of a file of edits in a model folder
DIGITS = 12  # of a hash
NEAREST = 4  # names in a message
POOL = "pool"  # the pool of a model, beside its sides
Shape = tuple[int, ...]
AnyModule = TypeVar("AnyModule", bound=nn.Module)


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


class TapedModel(Protocol):
    """Model whose values have names and shapes on a tape."""

    @property
    def facts(self) -> ModelFacts:
        """The facts of the model."""

    def tape_shapes(self) -> dict[str, Shape]:
        """Shapes of all values of a forward pass over one token, by name."""


@dataclass(frozen=True, eq=False)
class EditList:
    """Edits that are applied together, in order; ``name`` is the file or list they come from."""

    name: str
    edits: tuple[AnyEdit, ...]

    def __len__(self) -> int:
        return len(self.edits)

    @property
    def hash(self) -> str:
        """First digits of the SHA-256 of all edits and vectors, whatever their files are called."""
        digest = hashlib.sha256()
        for edit in self.edits:
            values = {key: value for key, value in vars(edit).items() if value is not None}
            vector = values.pop("vector", None)
            digest.update(json.dumps({"kind": edit.kind, **values}, sort_keys=True).encode())
            if vector is not None:
                digest.update(vector.values.float().contiguous().numpy().tobytes())
        return digest.hexdigest()[:DIGITS]

    def __str__(self) -> str:
        count = "1 edit" if len(self) == 1 else f"{len(self)} edits"
        return f"{self.name}: {count}, hash {self.hash}"

    def check(self, model: TapedModel) -> None:
        """Raise BadInput if a model lacks the values of an edit, or they have other sizes."""
        parts, sites = (*model.facts.sides, POOL), model.facts.attention_sites
        shapes = {
            name: shape
            for name, shape in model.tape_shapes().items()
            if name.partition(".")[0] in parts
        }
        causal = {name for site in sites if site.causal for name in site.weights}
        for number, edit in enumerate(self.edits, start=1):
            try:
                matches = [name for name in edit.names if name in shapes]
                if not matches:
                    raise BadInput(f"at: {_no_match(edit, shapes)}")
                for name in matches:
                    edit.check(shapes[name], causal=name in causal)
            except BadInput as error:
                raise BadInput(f"{self.name}: edit {number}: {error}") from None


def _no_match(edit: AnyEdit, names: Collection[str]) -> str:
    places = {
        name.removesuffix(ending): None
        for name in names
        for ending in edit.endings
        if name.endswith(ending)
    }
    close = get_close_matches(edit.at, [*places], n=NEAREST, cutoff=0.0)
    advice = f"the nearest names: {', '.join(close) or 'none'}"
    return f"this model has no {edit.at!r} for {edit.kind}; {advice}"


def read_edits(path: str | Path) -> EditList:
    """Read a file of edits, for ``model.edited``."""
    if not isinstance(path, str | Path):
        raise BadInput(f"path: give a str or a Path, not {shown(path)}")
    path = Path(path)
    written = read_bytes(path)
    try:
        content = tomllib.loads(written.decode())
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{path}: not TOML ({error})") from None
    for key in content:
        if key != "edit":
            raise BadInput(f"{path}: unknown key {key!r}; write a table [[edit]] for each edit")
    return list_edits(content.get("edit", []), str(path), path.parent)


def list_edits(tables: object, name: str, folder: Path | None = None) -> EditList:
    """Edits of tables; without a ``folder``, vectors, which are in files, are refused."""
    if not isinstance(tables, list) or not tables:
        raise BadInput(f"{name}: no edits; write a table [[edit]] for each")
    edits = []
    for number, table in enumerate(tables, start=1):
        try:
            edits.append(_read_edit(table, folder))
        except BadInput as error:
            raise BadInput(f"{name}: edit {number}: {error}") from None
    return EditList(name, tuple(edits))


def _read_edit(table: object, folder: Path | None) -> AnyEdit:
    if not isinstance(table, dict):
        raise BadInput(f"{shown(table)} is not a table; write [[edit]]")
    kind = table.get("kind")
    if not isinstance(kind, str):
        raise BadInput(f"kind: must be one of {', '.join(KINDS)}, not {shown(kind)}")
    if kind not in KINDS:
        raise BadInput(f"kind: there is no edit {shown(kind)}{did_you_mean(kind, KINDS)}")
    known = {field.name: field for field in fields(KINDS[kind])}
    given = {key: value for key, value in table.items() if key != "kind"}
    for key in given:
        if key not in known:
            raise BadInput(f"{key}: not a key of {kind}{did_you_mean(key, known)}")
    for key, field in known.items():
        if key not in given and field.default is MISSING:
            raise BadInput(f"{key}: missing; {kind} needs it")
    if folder is None and "vector" in given:
        raise BadInput("vector: it is read from a file, which only a file of edits can name")
    place = Path() if folder is None else folder
    values: dict[str, Any] = {key: READERS[key](value, place) for key, value in given.items()}
    return KINDS[kind](**values)


def _text(value: object, folder: Path) -> str:
    if not isinstance(value, str):
        raise BadInput(f"at: must be a string, not {shown(value)}")
    return value


def _whole(key: str) -> Callable[[object, Path], int]:
    return lambda value, folder: check_whole(f"{key}:", value, 0)


def _number(key: str) -> Callable[[object, Path], float]:
    def read(value: Any, folder: Path) -> float:
        check_number(f"{key}:", value)
        if not isfinite(value):
            raise BadInput(f"{key}: must be a finite number, not {value}")
        return float(value)

    return read


def _tokens(value: object, folder: Path) -> tuple[int, ...]:
    if not isinstance(value, list) or not value:
        raise BadInput(f"tokens: must be a list of positions, counted from 0, not {shown(value)}")
    return tuple(check_whole("tokens:", position, 0) for position in value)


def _vector(value: object, folder: Path) -> EditVector:
    file, colon, name = value.rpartition(":") if isinstance(value, str) else ("", "", "")
    if not colon or not file or not name:
        raise BadInput(f'vector: must be "FILE.safetensors:NAME", not {shown(value)}')
    tensors = read_tensors(folder / file)
    if name not in tensors:
        raise BadInput(f"vector: {file} has no tensor {name!r}{did_you_mean(name, tensors)}")
    if not tensors[name].isfinite().all():
        raise BadInput(f"vector: {file}:{name} has values that are not finite")
    return EditVector(f"{file}:{name}", tensors[name])


READERS: Mapping[str, Callable[[Any, Path], object]] = {
    "at": _text,
    "head": _whole("head"),
    "row": _whole("row"),
    "column": _whole("column"),
    "scale": _number("scale"),
    "value": _number("value"),
    "tokens": _tokens,
    "vector": _vector,
}
"""Readers of the keys of edits; a file of vectors is in the folder of the edits."""


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

    def __init__(self, pool: nn.Module, part: str, edits: Sequence[AnyEdit]):
        super().__init__()
        self.pool, self.part, self.edits = pool, part, tuple(edits)

    def forward(self, encoded: EncoderOutput, *, tape: NullTape = NULL_TAPE) -> Tensor:
        edits = _tape_of(self.edits, encoded.layout).under(self.part)
        return edits("output", self.pool(encoded, tape=ChainedTape(edits, tape)))


def edit_module(module: AnyModule, sides: Sequence[str], edits: Sequence[AnyEdit]) -> AnyModule:
    """Copy of a model's module, with the same weights, whose runs are edited."""
    edited = copy(module)
    edited._modules = dict(module._modules)
    for part in (*sides, POOL):
        of_part = [edit for edit in edits if edit.at.startswith(f"{part}.")]
        if of_part:
            kind = EditedPool if part == POOL else EditedStack
            edited._modules[part] = kind(getattr(module, part), part, of_part)
            cast(Any, edited).capturable = False
    return edited
