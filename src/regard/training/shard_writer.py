"""Writer of shards: every process writes its own to a checkpoint, in the background.

torch.distributed.checkpoint plans which process writes what. Files are safetensors, so that nothing
is unpickled when they are read. Shards are first copied to host memory: on CUDA by a stream of its
own while the next step computes, which waits for it before it changes weights.
"""

import warnings
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from typing import cast

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import Tensor
from torch.distributed.checkpoint import CheckpointException, SavePlan, SavePlanner, StorageWriter
from torch.distributed.checkpoint.metadata import Metadata
from torch.distributed.checkpoint.planner import TensorWriteData
from torch.distributed.checkpoint.storage import WriteResult
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor
from torch.futures import Future

from regard.training.checkpoint import SHARD, TENSORS, Checkpoints, RunProgress, Tensors
from regard.training.distributed import World
from regard.training.parallel import CheckpointWriter
from regard.weights.tensor_pieces import write_one_by_one


class ShardWriter(CheckpointWriter):
    """Writer of the checkpoints of a run whose weights are divided."""

    def __init__(self, mesh: DeviceMesh, checkpoints: Checkpoints, world: World):
        super().__init__(checkpoints, world)
        self.mesh = mesh  # of the processes, on their CPUs
        # Of its own, as the main thread uses the other.
        self.group = dist.new_group(backend="gloo", timeout=world.limit)
        # Here, as filters are those of all threads.
        warnings.filterwarnings("ignore", module=r"torch\.distributed\.")
        on_cuda = world.device.type == "cuda"
        self.stream = torch.cuda.Stream(world.device) if on_cuda else None
        self.copying = Event()  # set once copies are made, on CUDA those that ``copied`` ends
        self.copied: torch.cuda.Event | None = None
        self.buffers: dict[str, Tensor] = {}
        self.thread: Thread | None = None
        self.error: BaseException | None = None

    def save(self, progress: RunProgress, tensors: Tensors, done: Callable[[], None]) -> None:
        """Begin to write a checkpoint, once the one before it is written.

        The tensors must not change before ``await_copies``.
        """
        self.wait()
        if self.world.is_leader:
            self.checkpoints.begin(progress.step)
        self.world.barrier()  # the folder is there
        named = {
            f"{group}/{name}": x for group, part in tensors.items() for name, x in part.items()
        }
        if self.stream is not None:
            self.stream.wait_stream(torch.cuda.current_stream())
        self.copying.clear()
        self.thread = Thread(target=self._write, args=(progress, named, done), daemon=True)
        self.thread.start()

    def wait(self) -> None:
        if self.thread is not None:
            self.thread.join()
            self.thread = None
        self._raise_error()

    def _raise_error(self) -> None:
        if self.error is not None:
            error, self.error = self.error, None
            raise error

    def await_copies(self) -> None:
        """Let the next kernels wait until the shards are copied; raise an error of the writer."""
        if self.thread is not None:
            self.copying.wait()
        self._raise_error()
        if self.copied is not None:
            torch.cuda.current_stream().wait_event(self.copied)

    def _write(
        self, progress: RunProgress, tensors: dict[str, Tensor], done: Callable[[], None]
    ) -> None:
        try:
            staged = self._stage(tensors)
            if self.copied is not None:
                self.copied.synchronize()
            name = f"{SHARD}{self.world.rank + 1:05d}{TENSORS}"
            writer = PieceWriter(self.checkpoints.temporary(progress.step) / name)
            with self.checkpoints.written():
                _save(staged, writer, self.group)
                everyone = [writer.checksums for _ in range(self.world.size)]
                dist.all_gather_object(everyone, writer.checksums, group=self.group)
                if self.world.is_leader:
                    checksums = {name: crc for part in everyone for name, crc in part.items()}
                    self.checkpoints.commit(progress, checksums)
                    done()
        except BaseException as error:
            self.error = error

    def _stage(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """Copies in host memory; on CUDA they are complete after the event ``copied``."""
        parts = {name: local_part(tensor) for name, tensor in tensors.items()}
        try:
            copies = self._copies(parts)
        finally:
            self.copying.set()
        return {name: divided_like(copies[name], x, self.mesh) for name, x in tensors.items()}

    def _copies(self, parts: dict[str, Tensor]) -> dict[str, Tensor]:
        if self.stream is None:
            return {name: own.clone() for name, own in parts.items()}
        for name, own in parts.items():
            if name not in self.buffers or self.buffers[name].shape != own.shape:
                self.buffers[name] = torch.empty_like(own, device="cpu", pin_memory=True)
        copies = {name: self.buffers[name] for name in parts}
        with torch.cuda.stream(self.stream):
            torch._foreach_copy_([*copies.values()], [*parts.values()], non_blocking=True)
        self.copied = self.stream.record_event()
        return copies


class PieceWriter(StorageWriter):
    """Writer of the pieces of one process, to a file, as torch.distributed.checkpoint calls it."""

    def __init__(self, path: Path):
        self.path = path
        self.checksums: dict[str, int] = {}  # of the file, if there are pieces

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        """Write the pieces that are planned for this process."""
        tensors, begins = {}, {}
        for item in plan.items:
            name = item.index.fqn
            tensors[name] = cast(Tensor, planner.resolve_data(item))
            begins[name] = cast(TensorWriteData, item.tensor_data).chunk.offsets
        if tensors:
            checksum = write_one_by_one(self.path, tensors, tensors, begins)
            self.checksums = {self.path.name: checksum}
        written: Future[list[WriteResult]] = Future()
        written.set_result([])
        return written

    def reset(self, checkpoint_id: object = None) -> None:
        pass

    def set_up_storage_writer(self, is_coordinator: bool, *_: object, **__: object) -> None:
        pass

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        return plan

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        return plans

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        pass

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: object) -> bool:
        return False


def _save(
    tensors: dict[str, Tensor], writer: StorageWriter, group: dist.ProcessGroup | None
) -> None:
    """Write tensors by all processes of a group; an error is that of the first that failed."""
    try:
        dcp.save(tensors, storage_writer=writer, process_group=group)
    except CheckpointException as error:
        cause, _ = error.failures[min(error.failures)]
        raise cause from None


def as_divided(tensor: Tensor) -> DTensor | None:
    """The tensor, if it is divided among processes."""
    return tensor if isinstance(tensor, DTensor) else None


def local_part(tensor: Tensor) -> Tensor:
    """The part of a tensor that this process has, in the same memory."""
    divided = as_divided(tensor)
    return tensor if divided is None else divided.to_local()


def divided_like(own: Tensor, tensor: Tensor, mesh: DeviceMesh | None = None) -> Tensor:
    """The tensor whose part in this process is ``own``, divided as ``tensor`` is."""
    if (like := as_divided(tensor)) is None:
        return own
    shape, stride, mesh = like.shape, like.stride(), mesh or like.device_mesh
    return DTensor.from_local(
        own, mesh, like.placements, run_check=False, shape=shape, stride=stride
    )
