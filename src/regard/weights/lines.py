"""Lines of weight maps: patterns of tensor names in a file, and their names in the model."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import torch
from torch import Tensor

from regard.weights.files import DTYPES
from regard.weights.moves import Move

CLOSE = 1e-4  # how near a table in a file is to its formula
_PARTS = re.compile(r"\{([\w.]+(?:,[\w.]+)+)\}")


@dataclass(frozen=True)
class WeightLine:
    """Line of a weight map, for the tensors of a file whose names match the pattern ``file``.

    ``{i}`` matches a number, ``*`` the last part of a name ("weight", "bias"); ``{q,k,v}_proj``
    lists several tensors.
    """

    file: str
    passes_through: ClassVar[bool] = False  # a tensor that the model does not use is written back

    def fits(self, name: str) -> bool:
        """Whether the name of a tensor in a file matches."""
        return any(pattern.fullmatch(name) for pattern in _expressions(self.file))

    def group(self, name: str) -> "TensorGroup | None":
        """The group of the model's tensor ``name``; None if this line does not map it."""
        return None

    @property
    def other_name_of(self) -> str | None:
        """Tensor of the model for which ``file`` is a second name, or None."""
        return None

    def fault(self, tensor: Tensor) -> str | None:
        """Description of what is wrong with a tensor that is kept for writing; None: nothing."""
        return None


@dataclass(frozen=True)
class Rule(WeightLine):
    """Tensors of a file ↔ tensors of the model with the same elements.

    ``{i}`` and ``*`` are the same on both sides. ``moves`` (transpose, join, ...) are applied in
    order when a file is read, and undone in reverse order when it is written. A rule applies if the
    model has all of its tensors; if several rules apply, the first is used.
    """

    ours: str
    moves: tuple[Move, ...] = ()

    def group(self, name: str) -> "TensorGroup | None":
        matches = (pattern.fullmatch(name) for pattern in _expressions(self.ours))
        if (match := next(filter(None, matches), None)) is None:
            return None
        files, ours = (_filled(column, match.groupdict()) for column in (self.file, self.ours))
        return TensorGroup(files, ours, self.moves)


@dataclass(frozen=True)
class Alias(WeightLine):
    """Second name in files of a tied tensor, besides the name in a rule or instead of it.

    Both tensors must hold the same bits, unless a ``Passthrough`` has the second name too: then a
    tensor that differs is kept unused. An alias applies if the model has the tensor, and the name
    belongs to no rule that applies and no earlier alias.
    """

    ours: str

    @property
    def other_name_of(self) -> str:
        return self.ours


@dataclass(frozen=True)
class Derived(WeightLine):
    """Constant table (sinusoidal positions) that a file may store; it must equal its formula."""

    passes_through = True
    formula: Callable[[torch.Size], Tensor]

    def fault(self, tensor: Tensor) -> str | None:
        table = self.formula(tensor.shape)
        if table.shape == tensor.shape and tensor.dtype in DTYPES:
            near = max(CLOSE, 2 * torch.finfo(tensor.dtype).eps)
            if torch.allclose(tensor.float(), table, rtol=0, atol=near):
                return None
        return "does not follow its formula"


@dataclass(frozen=True)
class Passthrough(WeightLine):
    """Tensor that a file may store and the model does not use: it is written back unchanged."""

    passes_through = True


@dataclass(frozen=True)
class TensorGroup:
    """Names of tensors in a file and in the model, and the moves between them."""

    files: tuple[str, ...]
    ours: tuple[str, ...]
    moves: tuple[Move, ...]

    def read(self, file: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Convert tensors of the file to tensors of the model, by name."""
        tensors = [file[name] for name in self.files]
        for move in self.moves:
            tensors = move.read(tensors)
        return dict(zip(self.ours, tensors, strict=True))

    def write(self, ours: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Convert tensors of the model to tensors of the file, by name."""
        tensors = [ours[name] for name in self.ours]
        for move in reversed(self.moves):
            tensors = move.write(tensors)
        return dict(zip(self.files, tensors, strict=True))


def _spread(pattern: str) -> list[str]:
    """Names that braces list: the first of every list, the second of every list, ..."""
    lists = [listed.split(",") for listed in _PARTS.findall(pattern)]
    template = _PARTS.sub("%s", pattern)
    return [template % each for each in zip(*lists, strict=True)] if lists else [pattern]


@cache
def _expressions(pattern: str) -> list[re.Pattern[str]]:
    escaped = (re.escape(name) for name in _spread(pattern))
    numbered = (name.replace(r"\{i\}", r"(?P<i>\d+)") for name in escaped)
    return [re.compile(name.replace(r"\*", r"(?P<rest>[^.]+)")) for name in numbered]


def _filled(pattern: str, values: Mapping[str, str]) -> tuple[str, ...]:
    i, rest = values.get("i", ""), values.get("rest", "")
    return tuple(name.replace("{i}", i).replace("*", rest) for name in _spread(pattern))
