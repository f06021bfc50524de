"""Named tensors in HDF5 files, by the optional library h5py.

Files are not trusted: only the names that a model expects are read, only numbers in the file
itself, and only after names, shapes and types were compared with the model's.
"""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from regard.core.errors import BadInput, reason_of
from regard.core.files import check_regular, replacing

if TYPE_CHECKING:
    from h5py import Dataset, Group

DTYPES = {
    np.dtype("f2"): torch.float16,
    np.dtype("f4"): torch.float32,
    np.dtype("f8"): torch.float64,  # described, so that the model's types can be compared
}
MOST_OTHERS = 1_000  # members of a group beside those that are expected


def describe_hdf5(path: Path, names: Collection[str]) -> dict[str, Tensor]:
    """The datasets of these names as tensors on the meta device: no numbers are read.

    Other members of their groups are listed as tensors without elements, and not opened. Links to
    other places, storage outside of the file, and chunks (which may be compressed a thousandfold)
    are refused.
    """
    with _opened(path) as file:
        datasets, further = file.find(names)
        described = {name: file.describe(name, dataset) for name, dataset in datasets.items()}
    return described | {name: torch.empty(0, device="meta") for name in further}


def read_hdf5(path: Path, names: Collection[str]) -> dict[str, Tensor]:
    """The datasets of these names, in the byte order of this machine.

    Datasets larger than their file were never written, and are refused.
    """
    tensors: dict[str, Tensor] = {}
    with _opened(path) as file:
        datasets, _ = file.find(names)
        described = {name: file.describe(name, dataset) for name, dataset in datasets.items()}
        size, total = path.stat().st_size, sum(tensor.nbytes for tensor in described.values())
        if total > size:
            raise BadInput(
                f"{path}: its datasets need {total:,} bytes, but the file has only {size:,}"
            )
        for name, dataset in datasets.items():
            tensors[name] = torch.empty_like(described[name], device="cpu")
            dataset.read_direct(tensors[name].numpy())
    return tensors


def count_members(path: Path, group: str) -> int:
    """The number of members of a group; 0 if there is no such group."""
    with _opened(path) as file:
        members = file.group(group)
        return 0 if members is None else len(members)


def write_hdf5(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write named tensors, whose names are paths in the file."""
    h5py = _library(path)
    with replacing(path) as temporary, h5py.File(temporary, "w") as file:
        for name, tensor in tensors.items():
            file.create_dataset(name, data=tensor.detach().cpu().numpy())


@dataclass(frozen=True)
class _File:
    """Open file, in which only named members are opened."""

    path: Path
    root: "Group"
    h5py: ModuleType

    def find(self, names: Collection[str]) -> tuple[dict[str, "Dataset"], list[str]]:
        """Find the datasets of these names, and the names of other members of their groups."""
        paths = [name.split("/")[:-1] for name in names]
        groups = {"/".join(path[:depth]) for path in paths for depth in range(len(path) + 1)}
        datasets, further = dict[str, "Dataset"](), list[str]()
        for prefix in sorted(groups):
            members = self.group(prefix) or ()
            if len(members) > len(names) + MOST_OTHERS:
                where = f"{self.path}: {prefix or 'its root'} has {len(members):,} members"
                raise BadInput(f"{where}, but the model has only {len(names):,} tensors")
            for member in members:
                name = f"{prefix}/{member}".lstrip("/")
                if name in names:
                    datasets[name] = self._member(self.group(prefix), member, name)
                elif name not in groups or self.group(name) is None:
                    further.append(name)
        return datasets, further

    def group(self, name: str) -> "Group | None":
        """The group of this path, or None if there is no such group."""
        group = self.root
        for step in filter(None, name.split("/")):
            if step not in group:
                return None
            group = self._member(group, step, name)
            if not isinstance(group, self.h5py.Group):
                return None
        return group

    def describe(self, name: str, dataset: "Dataset") -> Tensor:
        """The shape and type of a dataset whose numbers may be read."""
        where = f"{self.path}: {name}"
        if not isinstance(dataset, self.h5py.Dataset) or dataset.shape is None:
            raise BadInput(f"{where} holds no floating-point numbers")
        if dataset.external is not None or dataset.is_virtual:
            raise BadInput(f"{where} is stored in another file, which is not read")
        if dataset.chunks is not None:
            advice = "(h5repack -l CONTI rewrites a file)"
            raise BadInput(f"{where} is stored in chunks, not contiguously {advice}")
        dtype = DTYPES.get(dataset.dtype.newbyteorder("="))
        if dtype is None:
            expected = "floating-point numbers of 16 or 32 bits"
            raise BadInput(f"{where} holds no {expected} ({dataset.dtype})")
        return torch.empty(dataset.shape, dtype=dtype, device="meta")

    def _member(self, group: "Group", member: str, name: str) -> "Dataset | Group":
        if not isinstance(group.get(member, getlink=True), self.h5py.HardLink):
            raise BadInput(f"{self.path}: {name} is a link to another place; it is not followed")
        return group[member]


@contextmanager
def _opened(path: Path) -> Iterator[_File]:
    """Open a file; errors of h5py become ``BadInput``."""
    check_regular(path)
    h5py = _library(path)
    try:
        with h5py.File(path, "r") as root:
            yield _File(path, root, h5py)
    except BadInput:
        raise
    except (OSError, RuntimeError, KeyError, TypeError, ValueError, MemoryError) as error:
        raise BadInput(f"{path}: cannot be read as HDF5 ({reason_of(error)})") from None


def _library(path: Path) -> ModuleType:
    try:
        import h5py
    except ImportError:
        raise BadInput(f"{path}: HDF5 files need the library h5py (pip install h5py)") from None
    return h5py
