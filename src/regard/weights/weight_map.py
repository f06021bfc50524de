"""Weight maps: the names of a file and ours in two columns, to be read in either direction.

A line only moves elements, so writing what was read gives back the same bits. A map is total: what
no line places, in the file or in the model, is an error that lists it.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import torch
from torch import Tensor

from regard.weights.files import DTYPES, refuse_misfits

KEEP_ADVICE = "`regard convert --keep-unknown` keeps them beside the weights"
CLOSE = 1e-4  # how near a table in a file is to its formula
_PARTS = re.compile(r"\{(\w+(?:,\w+)+)\}")


@dataclass(frozen=True)
class Rule:
    """Tensors of a file, and the one of ours that holds the same elements.

    ``{i}`` is any number and ``*`` any last name, the same in both columns; ``{q,k,v}_proj`` are
    several tensors that lie one below the other in ours. ``transposed`` is a matrix that the file
    keeps on its side, ``ones`` counts axes of length 1 that the file puts in front.
    """

    file: str
    ours: str
    transposed: bool = False
    ones: int = 0

    def files_of(self, name: str) -> list[str]:
        """The file's names for a tensor of ours; none if this line is not about it."""
        found = re.fullmatch(_expression(self.ours), name)
        if found is None:
            return []
        values = found.groupdict()
        file = self.file.replace("{i}", values.get("i", "")).replace("*", values.get("rest", ""))
        parts = _PARTS.search(file)
        if parts is None:
            return [file]
        return [file[: parts.start()] + part + file[parts.end() :] for part in parts[1].split(",")]

    def together(self, parts: list[Tensor]) -> Tensor:
        """The file's tensors as ours."""
        moved = [part.reshape(part.shape[self.ones :]) for part in parts]
        if self.transposed:
            moved = [part.t() for part in moved]
        return torch.cat(moved) if len(moved) > 1 else moved[0]

    def apart(self, tensor: Tensor, count: int) -> list[Tensor]:
        """Our tensor as ``count`` of the file's."""
        parts = tensor.unflatten(0, (count, -1)).unbind()
        if self.transposed:
            parts = tuple(part.t() for part in parts)
        return [part.reshape((1,) * self.ones + part.shape) for part in parts]


@dataclass(frozen=True)
class Alias:
    """A name under which a file may keep the tensor ``of`` once more, or in its stead.

    ``loose``: where both are there they need not be equal, and this one is only given back.
    """

    file: str
    of: str
    loose: bool = False


@dataclass(frozen=True)
class Derived:
    """A table that a file may hold though it follows from its shape; it must agree with that."""

    file: str
    formula: Callable[[torch.Size], Tensor]


@dataclass(frozen=True)
class Passthrough:
    """A tensor that a file may hold and no computation needs; it is given back."""

    file: str


@dataclass(frozen=True, eq=False)
class Extras:
    """What a file says beyond our weights, so that it can be written as it was."""

    bare: bool = False  # names have no prefix
    tied: tuple[str, ...] = ()  # of the names of tied tensors, those that are used
    old: bool = False  # names are spelled as they used to be
    kept: Mapping[str, Tensor] = field(default_factory=dict)
    dtypes: Mapping[str, torch.dtype] = field(default_factory=dict)  # by our names


Line = Rule | Alias | Derived | Passthrough
Kind = TypeVar("Kind", Rule, Alias, Derived, Passthrough)


@dataclass(frozen=True)
class WeightMap:
    """A map of several lines. A file may leave out ``prefix`` wherever the lines have it.

    ``old`` are last names that older files have, and what they are called now; a file has either.
    """

    lines: tuple[Line, ...]
    prefix: str = ""
    old: tuple[tuple[str, str], ...] = ()

    def read(
        self,
        file: Mapping[str, Tensor],
        wanted: Mapping[str, Tensor],
        where: str,
        keep_unknown: bool = False,
    ) -> tuple[dict[str, Tensor], Extras]:
        """The file's tensors under our names, as ``wanted`` has them, and what else it says.

        With ``keep_unknown``, tensors whose names are in no line are only given back.
        """
        places = self._places(wanted, where)
        now = {name: _respelled(name, self.old) for name in file}
        old = any(name != new for name, new in now.items())
        misspelled = [name for name in file if old and _respelled(name, self._back) != name]
        file = {now[name]: tensor for name, tensor in file.items()}
        bare = not any(name.startswith(self.prefix) for name in file)
        rest = {self._full(name) if bare else name: tensor for name, tensor in file.items()}
        unequal: list[str] = []
        tied = self._tied(rest, unequal)
        missing = [one for _, files in places.values() for one in files if one not in rest]
        misshapen: list[str] = []
        ours: dict[str, Tensor] = {}
        for name, (rule, files) in places.items():
            parts = {one: rest.pop(one) for one in files if one in rest}
            shapes = dict(zip(files, rule.apart(wanted[name], len(files)), strict=True))
            wrong = list(_misshapen(parts, shapes))
            misshapen += wrong
            if len(parts) == len(files) and not wrong:
                ours[name] = rule.together(list(parts.values()))
        kept = self._kept(rest, unequal)
        unknown = [name for name in rest if name not in kept]
        strange = [name for name in unknown if not self._is_named(name)]
        if keep_unknown:
            kept |= {name: rest[name].clone() for name in strange}
            unknown = [name for name in unknown if name not in kept]
        others = {
            "misspelled": misspelled,
            "misshapen": misshapen,
            "unequal": unequal,
        }
        helps = strange == unknown and not (missing or any(others.values()))
        advice = KEEP_ADVICE if helps else ""
        refuse_misfits(where, advice, missing=missing, unknown=unknown, **others)
        dtypes = {name: tensor.dtype for name, tensor in ours.items()}
        return ours, Extras(bare, tied, old, kept, dtypes)

    def write(self, ours: Mapping[str, Tensor], beside: Extras) -> dict[str, Tensor]:
        """Our tensors, and what was beside them, under the file's names."""
        file: dict[str, Tensor] = dict(beside.kept)
        for name, (rule, files) in self._places(ours, "the model").items():
            tensor = ours[name]
            parts = rule.apart(tensor.to(beside.dtypes.get(name, tensor.dtype)), len(files))
            for one, part in zip(files, parts, strict=True):
                names = [other for other in self._group(one) if other in beside.tied] or [one]
                for other in names:
                    file[other] = part.clone(memory_format=torch.contiguous_format)
        if beside.bare:
            file = {name.removeprefix(self.prefix): tensor for name, tensor in file.items()}
        if beside.old:
            file = {_respelled(name, self._back): tensor for name, tensor in file.items()}
        return file

    @property
    def _back(self) -> tuple[tuple[str, str], ...]:
        return tuple((new, before) for before, new in self.old)

    def _full(self, name: str) -> str:
        """A name of a file without prefixes as the lines have it."""
        return name if self._is_named(name) else self.prefix + name

    def _is_named(self, name: str) -> bool:
        return any(re.fullmatch(_file_expression(line.file), name) for line in self.lines)

    def _places(self, ours: Iterable[str], where: str) -> dict[str, tuple[Rule, list[str]]]:
        """For each tensor of ours its line and the file's names."""
        found = {
            name: (rule, files)
            for name in ours
            for rule in self._of(Rule)
            if (files := rule.files_of(name))
        }
        refuse_misfits(where, unnamed=[name for name in ours if name not in found])
        return found

    def _group(self, file: str) -> list[str]:
        return [file, *(line.file for line in self._of(Alias) if line.of == file)]

    def _tied(self, rest: dict[str, Tensor], unequal: list[str]) -> tuple[str, ...]:
        """The names of tied tensors; afterwards ``rest`` has each only under its first name."""
        found: list[str] = []
        loose = {line.file for line in self._of(Alias) if line.loose}
        for first in dict.fromkeys(line.of for line in self._of(Alias)):
            names = [name for name in self._group(first) if name in rest]
            unlike = {name for name in names if not _same_bits(rest[name], rest[names[0]])}
            names = [name for name in names if name not in unlike & loose]
            tensors = [rest.pop(name) for name in names]
            unequal += [
                f"{name} is not {names[0]}, to which it is tied" for name in names if name in unlike
            ]
            if names:
                rest[first] = tensors[0]
                found += names
        return tuple(found)

    def _kept(self, rest: Mapping[str, Tensor], unequal: list[str]) -> dict[str, Tensor]:
        """Of what no rule took: what is to be given back."""
        unread = [line.file for line in self._of(Passthrough)]
        unread += [line.file for line in self._of(Alias) if line.loose]
        kept = {name: rest[name] for name in unread if name in rest}
        for line in self._of(Derived):
            if line.file in rest:
                kept[line.file] = table = rest[line.file]
                if not _follows(table, line.formula(table.shape)):
                    unequal.append(f"{line.file} does not follow its formula")
        return kept

    def _of(self, kind: type[Kind]) -> Iterator[Kind]:
        return (line for line in self.lines if isinstance(line, kind))


def _respelled(name: str, spellings: tuple[tuple[str, str], ...]) -> str:
    return next(
        (name.removesuffix(one) + other for one, other in spellings if name.endswith(one)), name
    )


def _misshapen(parts: Mapping[str, Tensor], like: Mapping[str, Tensor]) -> Iterator[str]:
    dtypes = [part.dtype for part in parts.values() if part.dtype in DTYPES]
    for name, part in parts.items():
        if part.shape != like[name].shape:
            yield f"{name} is {list(part.shape)}, not {list(like[name].shape)}"
        elif part.dtype not in dtypes[:1]:
            wanted = (*dtypes, DTYPES[0])[0]
            yield f"{name} is {part.dtype}, not {wanted}".replace("torch.", "")


def _same_bits(one: Tensor, other: Tensor) -> bool:
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    bits = [tensor.reshape(-1).contiguous().view(torch.uint8) for tensor in (one, other)]
    return torch.equal(*bits)


def _follows(table: Tensor, formula: Tensor) -> bool:
    if table.shape != formula.shape or table.dtype not in DTYPES:
        return False
    near = max(CLOSE, 2 * torch.finfo(table.dtype).eps)
    return torch.allclose(table.float(), formula, rtol=0, atol=near)


def _expression(pattern: str) -> str:
    return re.escape(pattern).replace(r"\{i\}", r"(?P<i>\d+)").replace(r"\*", r"(?P<rest>[^.]+)")


def _file_expression(pattern: str) -> str:
    parts = _PARTS.search(pattern)
    if parts is None:
        return _expression(pattern)
    either = f"(?:{parts[1].replace(',', '|')})"
    return _expression(pattern[: parts.start()]) + either + _expression(pattern[parts.end() :])
