"""Named tensors in HDF5 files, by the optional library h5py."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.ground.errors import BadInput, reason_of
from regard.ground.files import check_regular, replacing


def read_hdf5(path: Path) -> dict[str, Tensor]:
    """The datasets of a file by their paths in it; links to other files are not followed."""
    check_regular(path)
    h5py, names, arrays = _library(path), list[str](), dict[str, np.ndarray]()
    try:
        with h5py.File(path, "r") as file:
            file.visit(names.append)
            for name in names:
                if file.get(name, getclass=True) == h5py.Dataset:
                    arrays[name] = file[name][()]
    except (OSError, RuntimeError, KeyError, TypeError) as error:
        raise BadInput(f"{path}: cannot be read as HDF5 ({reason_of(error)})") from None
    for name, array in arrays.items():
        if not np.issubdtype(np.asarray(array).dtype, np.floating):
            raise BadInput(f"{path}: {name} holds no floating-point numbers")
    return {name: torch.from_numpy(np.asarray(array)) for name, array in arrays.items()}


def write_hdf5(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write named tensors, whose names are paths in the file."""
    h5py = _library(path)
    with replacing(path) as temporary, h5py.File(temporary, "w") as file:
        for name, tensor in tensors.items():
            file.create_dataset(name, data=tensor.detach().cpu().numpy())


def _library(path: Path) -> Any:
    try:
        import h5py
    except ImportError:
        raise BadInput(f"{path}: HDF5 files need the library h5py (pip install h5py)") from None
    return h5py
