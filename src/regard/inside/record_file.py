"""Files of records: 8 bits a number, in safetensors, from which one value is read at a time.

Attention weights are stored as round(255·√w), which keeps small weights apart: the error is at most
√w / 255 + 4e-6. Other values are whole numbers from -127 to 127, with a scale for each vector.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from regard.core.errors import BadInput
from regard.core.files import check_regular, replacing

VERSION = "regard-record-1"
SCALE = ":scale"


def encode(name: str, value: np.ndarray) -> dict[str, np.ndarray]:
    """Tensors of a file that hold a value in 8 bits."""
    if value.dtype == np.uint8:  # pixels
        return {name: value}
    if name.endswith(".weights"):
        return {name: np.rint(255 * np.sqrt(value.clip(0, 1))).astype(np.uint8)}
    scale = np.abs(value).max(axis=-1, keepdims=True, initial=0) / 127
    whole = np.rint(value / np.where(scale > 0, scale, 1)).astype(np.int8)
    return {name: whole, name + SCALE: scale.astype(np.float32)}


class SavedValues(Mapping[str, np.ndarray]):
    """Values in a file, each read and decoded when it is asked for."""

    def __init__(self, path: Path):
        self.path = path
        with _opened(path) as file:
            self._names = [name for name in file.keys() if not name.endswith(SCALE)]  # noqa: SIM118

    def choose(self, names: Sequence[str]) -> "SavedValues":
        """The values of these names, in their order."""
        if absent := [name for name in names if name not in self]:
            raise ValueError(f"{absent[0]} is missing")
        chosen = copy(self)
        chosen._names = [*names]
        return chosen

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self._names:
            raise KeyError(name)
        with _opened(self.path) as file:
            stored = file.get_tensor(name)
            if name.endswith(".weights"):
                return np.square(stored.astype(np.float32) / 255)
            return stored if stored.dtype == np.uint8 else stored * file.get_tensor(name + SCALE)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def write(path: Path, values: Mapping[str, np.ndarray], described: Mapping[str, object]) -> None:
    """Write values and a description, which JSON can express, whole or not at all."""
    tensors = {
        key: part for name, value in values.items() for key, part in encode(name, value).items()
    }
    metadata = {"format": VERSION, "record": json.dumps(described)}
    with replacing(path) as temporary:
        save_file(
            {key: np.ascontiguousarray(part) for key, part in tensors.items()}, temporary, metadata
        )


def read(path: Path) -> tuple[SavedValues, dict[str, Any]]:
    """The values of a file, which are read later, and their description."""
    with _opened(path) as file:
        metadata = file.metadata() or {}
    if metadata.get("format") != VERSION:
        raise BadInput(f"{path}: not a record; model.record(…)[0].save(path) writes one")
    try:
        described = json.loads(metadata["record"])
    except (KeyError, ValueError) as error:
        raise BadInput(f"{path}: a damaged record ({error!r})") from None
    return SavedValues(path), described


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    check_regular(path)
    try:
        with safe_open(path, framework="np") as file:
            yield file
    except (OSError, SafetensorError) as error:
        raise BadInput(f"{path}: cannot be read as a record ({error})") from None
