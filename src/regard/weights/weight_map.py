"""Weight maps: tensor names of a file → names in the model (reading), and back (writing).

Lines only move elements, so writing a file that was read gives the same bits. A map is total:
tensors of the file or of the model that no line names are an error that lists them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain

import torch
from torch import Tensor

from regard.weights.files import DTYPES, misshapen, refuse_misfits
from regard.weights.lines import TensorGroup, WeightLine

KEEP_ADVICE = "they can be kept beside the weights (keep_unknown)"
DELETE_ADVICE = "this format cannot keep other tensors: delete them from a copy of the file"
MISFITS = ("missing", "unknown", "doubled", "misshapen", "mistyped", "unequal")
Misfits = dict[str, list[str]]
"""Names of tensors that do not fit, by reason."""


@dataclass(frozen=True, eq=False)
class Extras:
    """Properties of a file that was read, besides the model's weights, to write it identically.

    ``bare``: its names lack the prefix of the map, such as "bert.". ``tied``: the names that it
    uses for tied tensors, which may be stored under one name or several. ``old``: whether its names
    have the old spelling ("gamma" for "weight"): all, none, or only these. ``kept``: its tensors
    that the model does not use. ``dtypes``: the precision of its tensors, by the model's names.
    """

    bare: bool = False  # names have no prefix
    tied: tuple[str, ...] = ()  # of the names of tied tensors, those that are used
    old: bool | tuple[str, ...] = False  # names in old spelling: all that have one, none, or these
    kept: Mapping[str, Tensor] = field(default_factory=dict)
    dtypes: Mapping[str, torch.dtype] = field(default_factory=dict)  # by our names

    def in_file_precision(self, ours: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Convert the model's tensors to the precision that they had in the file."""
        return {name: ours[name].to(self.dtypes.get(name, ours[name].dtype)) for name in ours}


@dataclass(frozen=True)
class WeightMap:
    """Map of tensor names between a file and a model, with lines for all tensors.

    In the file, the names of ``lines`` start with ``prefix`` (a file may omit it everywhere), those
    of ``unprefixed`` do not. ``old`` are pairs (suffix in older files, suffix today); a file has
    each tensor under one of the two.
    """

    lines: tuple[WeightLine, ...]
    prefix: str = ""
    unprefixed: tuple[WeightLine, ...] = ()
    old: tuple[tuple[str, str], ...] = ()

    def read(
        self,
        file: Mapping[str, Tensor],
        expected: Mapping[str, Tensor],
        where: str,
        keep_unknown: bool = False,
        advice: str = KEEP_ADVICE,
    ) -> tuple[dict[str, Tensor], Extras]:
        """Translate file → model: the tensors under the names of ``expected``, and the extras.

        With ``keep_unknown``, tensors whose names are in no line are returned in the extras.
        ``advice`` is added to the error if such tensors are the only fault.
        """
        groups = self._groups(expected, where)
        misfits: Misfits = {kind: [] for kind in MISFITS}
        rest, bare, old = self._named_as_today(file, misfits)
        tied = self._tied(rest, groups, misfits)
        ours = _read_groups(groups, rest, expected, misfits)
        kept = self._kept(rest, misfits)
        unknown = [name for name in rest if name not in kept]
        strange = [name for name in unknown if not any(line.fits(name) for line in self._all)]
        if keep_unknown:
            kept |= {name: rest[name].clone() for name in strange}
            unknown = [name for name in unknown if name not in kept]
        helps = strange == unknown and not any(misfits.values())
        misfits["unknown"] = unknown
        refuse_misfits(where, advice if helps else "", **misfits)
        dtypes = {name: tensor.dtype for name, tensor in ours.items()}
        return ours, Extras(bare, tied, old, kept, dtypes)

    def write(self, ours: Mapping[str, Tensor], extras: Extras) -> dict[str, Tensor]:
        """Translate model → file: the model's tensors and the extras, under the file's names."""
        file: dict[str, Tensor] = dict(extras.kept)
        ours = extras.in_file_precision(ours)
        groups = self._groups(ours, "the model")
        names = self._names(groups)
        for group in groups:
            for first, part in group.write(ours).items():
                used = [name for name in names.get(first, ()) if name in extras.tied]
                for name in used or [first]:
                    file[name] = part.clone(memory_format=torch.contiguous_format)
        if extras.bare:
            file = {name.removeprefix(self.prefix): tensor for name, tensor in file.items()}
        if extras.old:
            before = {name: _respelled(name, self._back) for name in file}
            old = {*(extras.old if isinstance(extras.old, tuple) else before.values())}
            file = {before[name] if before[name] in old else name: file[name] for name in file}
        return file

    @cached_property
    def _all(self) -> tuple[WeightLine, ...]:
        under = (replace(line, file=self.prefix + line.file) for line in self.lines)
        return (*under, *self.unprefixed)

    @property
    def _back(self) -> tuple[tuple[str, str], ...]:
        return tuple((new, before) for before, new in self.old)

    def _full(self, name: str) -> str:
        """Name with prefix, as in the lines, of a name of a ``bare`` file."""
        return name if any(line.fits(name) for line in self.unprefixed) else self.prefix + name

    def _named_as_today(
        self, file: Mapping[str, Tensor], misfits: Misfits
    ) -> tuple[dict[str, Tensor], bool, bool | tuple[str, ...]]:
        """Rename a file's tensors to the names of the lines: with prefix, in today's spelling.

        Returns the tensors, and ``bare`` and ``old`` of the extras.
        """
        now = {name: _respelled(name, self.old) for name in file}
        old = tuple(name for name, new in now.items() if name != new)
        before = {name: _respelled(name, self._back) for name in file}
        today = {name: other for name, other in before.items() if name != other}
        misfits["doubled"] += [
            f"{name} is also {other}" for name, other in today.items() if other in file
        ]
        bare = not any(name.startswith(self.prefix) for name in now.values())
        full = {name: self._full(new) if bare else new for name, new in now.items()}
        spelling = old if old and today else bool(old)
        return {full[name]: tensor for name, tensor in file.items()}, bare, spelling

    def _groups(self, ours: Mapping[str, Tensor], where: str) -> list[TensorGroup]:
        """Groups of tensors that are converted together; all tensors of the model, in order."""
        groups: dict[TensorGroup, None] = {}
        named: set[str] = set()
        for name in ours:
            options = (line.group(name) for line in self._all)
            whole = (group for group in options if group and {*group.ours} <= ours.keys())
            if (group := next(whole, None)) is not None:
                groups[group] = None
                named |= {*group.ours}
        refuse_misfits(where, unnamed=[name for name in ours if name not in named])
        return list(groups)

    def _names(self, groups: Iterable[TensorGroup]) -> dict[str, list[str]]:
        """All names in files of each tied tensor, by its first name."""
        pairs = (zip(group.ours, group.files, strict=False) for group in groups)
        firsts = dict(chain.from_iterable(pairs))
        used = {name for group in groups for name in group.files}
        names: dict[str, list[str]] = {}
        for line in self._all:
            first = firsts.get(line.other_name_of or "")
            if first is not None and line.file not in used:
                used.add(line.file)
                names.setdefault(first, [first]).append(line.file)
        return names

    def _tied(
        self, rest: dict[str, Tensor], groups: Iterable[TensorGroup], misfits: Misfits
    ) -> tuple[str, ...]:
        """Merge copies of tied tensors in ``rest`` under their first names; return the names used.

        A copy that differs is an error, unless a ``Passthrough`` allows it (``loose``): then it
        stays in ``rest``.
        """
        tied: list[str] = []
        loose = {line.file for line in self._all if line.passes_through}
        for first, several in self._names(groups).items():
            names = [name for name in several if name in rest]
            unlike = {name for name in names if not _same_bits(rest[name], rest[names[0]])}
            names = [name for name in names if name not in unlike & loose]
            tensors = [rest.pop(name) for name in names]
            misfits["unequal"] += [
                f"{name} is not {names[0]}, to which it is tied" for name in names if name in unlike
            ]
            if names:
                rest[first] = tensors[0]
                tied += names
        return tuple(tied)

    def _kept(self, rest: Mapping[str, Tensor], misfits: Misfits) -> dict[str, Tensor]:
        """Tensors that the model does not use, and that are written back to a file."""
        kept = {}
        for name, tensor in rest.items():
            for line in self._all:
                if line.passes_through and line.fits(name):
                    kept[name] = tensor
                    if fault := line.fault(tensor):
                        misfits["unequal"].append(f"{name} {fault}")
        return kept


def _respelled(name: str, spellings: tuple[tuple[str, str], ...]) -> str:
    matches = (name.removesuffix(old) + new for old, new in spellings if name.endswith(old))
    return next(matches, name)


def _read_groups(
    groups: Iterable[TensorGroup],
    rest: dict[str, Tensor],
    expected: Mapping[str, Tensor],
    misfits: Misfits,
) -> dict[str, Tensor]:
    """Convert tensors of a file to tensors of the model; they are removed from ``rest``."""
    ours = dict[str, Tensor]()
    for group in groups:
        parts = {name: rest.pop(name) for name in group.files if name in rest}
        missing = [name for name in group.files if name not in parts]
        shapes, types = misshapen(parts, group.write(expected)), _mistyped(parts)
        misfits["missing"] += missing
        misfits["misshapen"] += shapes
        misfits["mistyped"] += types
        if not (missing or shapes or types):
            ours |= group.read(parts)
    return ours


def _mistyped(parts: Mapping[str, Tensor]) -> list[str]:
    """Fault of each tensor of a group whose type differs from the first one's."""
    types = {name: part.dtype for name, part in parts.items()}
    expected = next((dtype for dtype in types.values() if dtype in DTYPES), DTYPES[0])
    wrong = {name: dtype for name, dtype in types.items() if dtype != expected}
    return [f"{name} is {wrong[name]}, not {expected}".replace("torch.", "") for name in wrong]


def _same_bits(first: Tensor, second: Tensor) -> bool:
    if first.shape != second.shape or first.dtype != second.dtype:
        return False
    bits = [tensor.reshape(-1).contiguous().view(torch.uint8) for tensor in (first, second)]
    return torch.equal(*bits)
