"""Files of edits (TOML), which verbs and models apply, with a hash that identifies them.

A file has a table ``[[edit]]`` for each edit, with its ``kind``, the place ``at`` of the values on
the tape, and the keys of its kind. Vectors are in safetensors files, relative to the file.
"""

import hashlib
import json
import tomllib
from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, dataclass, fields
from difflib import get_close_matches
from math import isfinite
from pathlib import Path
from typing import Any

from regard.ground.checks import check_number, check_whole
from regard.ground.errors import BadInput, did_you_mean, shown
from regard.ground.files import read_bytes
from regard.inside.inspected_model import InspectedModel
from regard.models.edits import KINDS, POOL, AnyEdit, EditVector, HeadOff, LayerOff
from regard.weights.files import read_tensors

BESIDE = "edits.toml"  # the name of a file of edits in a model folder
DIGITS = 12  # of a hash
NEAREST = 4  # names in a message


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

    def check(self, model: InspectedModel) -> None:
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


def head_edits(model: InspectedModel) -> dict[tuple[str, int, int], EditList]:
    """The edit that turns off each head, by the name of its attention, layer and number."""
    names = model.tape_names()
    edits = {}
    for site in model.facts.attention_sites:
        for layer, heads in enumerate(site.heads):
            path = site.tape_path.format(layer=layer)
            at = path if f"{path}.head_outputs" in names else site.weights[layer]
            for head in range(heads):
                place = site.name, layer, head
                edits[place] = EditList("{} {}.{}".format(*place), (HeadOff(at, head),))
    if not edits:
        raise BadInput("this model has no attention heads that can be turned off")
    return edits


def layer_edits(model: InspectedModel) -> dict[tuple[str, int], EditList]:
    """The edit that turns off each layer, by the side and number of the layer."""
    names = {*model.tape_names()}
    edits = {}
    for side in model.facts.sides:
        for layer in range(getattr(model.facts, side).stack.depth):
            edit = LayerOff(f"{side}.blocks.{layer}")
            if {*edit.names} & names:
                edits[side, layer] = EditList(f"{side} {layer}", (edit,))
    if not edits:
        raise BadInput("this model has no Transformer layers that can be turned off")
    return edits
