"""Copies of tensors in host memory: on CUDA by a stream of its own, while other kernels run."""

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

CHUNK = 1 << 28  # bytes that are copied at once
ALIGNMENT = 16  # bytes


class Pack(NamedTuple):
    """Tensors that are copied at once: they are first packed on the device, if there are several.

    ``host`` has their bytes in page-locked memory, and ``copies`` shows them as tensors; so do
    ``device`` and ``packed``.
    """

    host: Tensor
    copies: dict[str, Tensor]
    device: Tensor
    packed: dict[str, Tensor]


class HostCopies:
    """The copies of tensors of the same names and shapes, made again and again.

    A call for each tensor would fill the queue of the driver, and other threads would wait for it.
    """

    def __init__(self, device: torch.device):
        self.stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        self.shapes: dict[str, torch.Size] = {}
        self.packs: list[Pack] = []
        self.end: torch.cuda.Event | None = None  # of the copies

    def follow(self) -> None:
        """Let the next copies wait for the kernels that this thread has launched."""
        if self.stream is not None:
            self.stream.wait_stream(torch.cuda.current_stream())

    def precede(self) -> None:
        """Let the kernels that this thread launches next wait for the copies."""
        if self.end is not None:
            torch.cuda.current_stream().wait_event(self.end)

    def begin(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Begin to copy tensors of one device; on CUDA the copies are complete after ``wait``."""
        if self.stream is None:
            return {name: tensor.clone() for name, tensor in tensors.items()}
        shapes = {name: tensor.shape for name, tensor in tensors.items()}
        with torch.cuda.stream(self.stream):
            if shapes != self.shapes:
                self.shapes, self.packs = shapes, []  # the memory of the last ones is free
                self.packs = packs_of(tensors)
            for pack in self.packs:
                copy_pack(pack, tensors)
            self.end = self.stream.record_event()
        return {name: copy for pack in self.packs for name, copy in pack.copies.items()}

    def wait(self) -> None:
        """Wait until the copies are complete."""
        if self.end is not None:
            self.end.synchronize()


def packs_of(tensors: Mapping[str, Tensor], chunk: int = CHUNK) -> list[Pack]:
    """Memory for copies of tensors, in packs of at most ``chunk`` bytes or of one tensor."""
    names: list[list[str]] = []
    room = 0
    for name, tensor in tensors.items():
        if not names or aligned(tensor) > room:
            names.append([])
            room = chunk
        names[-1].append(name)
        room -= aligned(tensor)
    several = [group for group in names if len(group) > 1]
    most = max((sum(aligned(tensors[name]) for name in group) for group in several), default=0)
    device = next(iter(tensors.values())).device if tensors else torch.device("cpu")
    scratch = torch.empty(most, dtype=torch.uint8, device=device)
    return [_pack({name: tensors[name] for name in group}, scratch) for group in names]


def copy_pack(pack: Pack, tensors: Mapping[str, Tensor]) -> None:
    """Copy the tensors of a pack to its host memory, in the current stream."""
    parts = [tensors[name] for name in pack.copies]
    if len(parts) == 1:
        [copy] = pack.copies.values()
        copy.copy_(parts[0], non_blocking=True)
    else:
        torch._foreach_copy_([*pack.packed.values()], parts)
        pack.host.copy_(pack.device, non_blocking=True)


def aligned(tensor: Tensor) -> int:
    """The bytes of a tensor, such that the next one begins where it may."""
    return -(-tensor.nbytes // ALIGNMENT) * ALIGNMENT


def _pack(tensors: dict[str, Tensor], scratch: Tensor) -> Pack:
    size = sum(map(aligned, tensors.values()))
    host = torch.empty(size, dtype=torch.uint8, pin_memory=scratch.is_cuda)
    device = scratch[:size] if len(tensors) > 1 else scratch[:0]
    packed = _views(device, tensors) if len(tensors) > 1 else {}
    return Pack(host, _views(host, tensors), device, packed)


def _views(memory: Tensor, like: dict[str, Tensor]) -> dict[str, Tensor]:
    """Tensors of these types and shapes in a row of bytes, one after another."""
    views, begin = {}, 0
    for name, tensor in like.items():
        content = memory[begin : begin + tensor.nbytes]
        views[name] = content.view(tensor.dtype).view(tensor.shape)
        begin += aligned(tensor)
    return views
