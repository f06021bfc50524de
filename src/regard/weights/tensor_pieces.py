"""Tensors of safetensors files, whole or in pieces of several files: any part of one can be read.

The header of a file with pieces says where each begins, as torch.distributed.checkpoint writes it.
"""

import json
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate, pairwise
from math import prod
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from regard.core.errors import BadInput
from regard.core.files import check_regular, replacing
from regard.weights.files import read_tensors

PLACES, OFFSETS = "DCP_SHARDING_INFO", "saved_offsets"  # keys of the header
DTYPES = {
    **{"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16},
    **{"I64": torch.int64, "I32": torch.int32, "I16": torch.int16, "I8": torch.int8},
    **{"U8": torch.uint8, "BOOL": torch.bool},
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}


class Piece(NamedTuple):
    """A rectangle of a tensor, in a file."""

    path: Path
    begin: tuple[int, ...]
    end: tuple[int, ...]
    dtype: torch.dtype


class TensorPieces(Mapping[str, Tensor]):
    """The tensors of several files by name; each is read when it is asked for.

    A ``prefix`` chooses the names that begin with it, and is left out of them.
    """

    def __init__(self, paths: Sequence[Path], prefix: str = ""):
        self.paths, self.prefix = paths, prefix
        self.pieces: dict[str, list[Piece]] = {}
        for path in paths:
            for name, piece in _pieces_in(path):
                if name.startswith(prefix):
                    self.pieces.setdefault(name.removeprefix(prefix), []).append(piece)

    def __getitem__(self, name: str) -> Tensor:
        shape = self.shape(name)
        return self.part(name, (0,) * len(shape), shape)

    def __iter__(self) -> Iterator[str]:
        return iter(self.pieces)

    def __len__(self) -> int:
        return len(self.pieces)

    def read_all(self) -> dict[str, Tensor]:
        """All tensors, whole."""
        whole = len(self.paths) == 1 and not self.prefix
        return read_tensors(self.paths[0]) if whole else {**self}

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a whole tensor."""
        return tuple(map(max, zip(*(piece.end for piece in self.pieces[name]), strict=True)))

    def dtype(self, name: str) -> torch.dtype:
        """The type of a tensor."""
        return self.pieces[name][0].dtype

    def part(self, name: str, begin: Sequence[int], shape: Sequence[int]) -> Tensor:
        """The part of a tensor of this shape that begins at these indices."""
        part, covered = torch.empty(shape, dtype=self.dtype(name)), 0
        for piece in self.pieces[name]:
            first = [max(pair) for pair in zip(piece.begin, begin, strict=True)]
            ends = zip(piece.end, begin, shape, strict=True)
            last = [min(end, start + size) for end, start, size in ends]
            sizes = [max(0, end - start) for start, end in zip(first, last, strict=True)]
            if not prod(sizes):
                continue
            covered += prod(sizes)
            own = tuple(_slices(first, piece.begin, sizes))
            with _opened(piece.path) as file:
                full = f"{self.prefix}{name}"
                content = file.get_slice(full)[own] if own else file.get_tensor(full)
            part[tuple(_slices(first, begin, sizes))] = content
        if covered != part.numel():
            files = ", ".join(sorted({piece.path.name for piece in self.pieces[name]}))
            raise BadInput(f"{self.pieces[name][0].path.parent}: {name} is incomplete in {files}")
        return part


def write_one_by_one(
    path: Path,
    tensors: Mapping[str, Tensor],
    like: Mapping[str, Tensor],
    begins: Mapping[str, Sequence[int]] | None = None,
) -> int:
    """Write tensors as safetensors, with one of them in memory at a time; return the CRC-32.

    ``like`` has tensors of their names, shapes and types, which may be on the meta device. If they
    are pieces, ``begins`` says where each begins in its whole tensor. Other threads run meanwhile.
    """
    sizes = [tensor.numel() * tensor.element_size() for tensor in like.values()]
    places = pairwise(accumulate(sizes, initial=0))
    metadata = {"format": "pt"}
    if begins is not None:
        offsets = {name: {OFFSETS: [*begin]} for name, begin in begins.items()}
        metadata[PLACES] = json.dumps(offsets)
    header: dict[str, object] = {"__metadata__": metadata}
    for (name, tensor), place in zip(like.items(), places, strict=True):
        shape = {"shape": [*tensor.shape], "data_offsets": [*place]}
        header[name] = {"dtype": NAMES[tensor.dtype], **shape}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    checksum = 0
    with replacing(path) as temporary, temporary.open("wb") as file:

        def write(content: bytes | memoryview) -> None:
            nonlocal checksum
            checksum = zlib.crc32(content, checksum)
            file.write(content)

        write(len(text).to_bytes(8, "little") + text)
        for name, tensor in like.items():
            content = tensors[name].to(tensor.dtype).contiguous()
            write(content.reshape(-1).view(torch.uint8).numpy().data)
    return checksum


class MappedTensors(Mapping[str, Tensor]):
    """Tensors that a function makes, each when it is read."""

    def __init__(self, names: Sequence[str], make: Callable[[str], Tensor]):
        self.names, self.make = dict.fromkeys(names), make

    def __getitem__(self, name: str) -> Tensor:
        return self.make(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


def _slices(first: Sequence[int], begin: Sequence[int], sizes: Sequence[int]) -> Iterator[slice]:
    for start, origin, size in zip(first, begin, sizes, strict=True):
        yield slice(start - origin, start - origin + size)


def _pieces_in(path: Path) -> Iterator[tuple[str, Piece]]:
    with _opened(path) as file:
        places = json.loads((file.metadata() or {}).get(PLACES, "{}"))
        for name in file.keys():  # noqa: SIM118 - it is no dictionary
            header = file.get_slice(name)
            shape = header.get_shape()
            begin = places[name][OFFSETS] if name in places else [0] * len(shape)
            end = tuple(start + size for start, size in zip(begin, shape, strict=True))
            yield name, Piece(path, tuple(begin), end, DTYPES[header.get_dtype()])


@contextmanager
def _opened(path: Path) -> Iterator[safe_open]:
    check_regular(path)
    try:
        with safe_open(path, framework="pt") as file:
            yield file
    except (OSError, MemoryError, SafetensorError, KeyError, ValueError) as error:
        raise BadInput(f"{path}: cannot be read as safetensors ({error}); copy it again") from None
