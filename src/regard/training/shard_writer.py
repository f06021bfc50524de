"""Writer of shards: every process writes its own to a checkpoint, in the background.

torch.distributed.checkpoint plans which process writes what. It writes safetensors, so that nothing
is unpickled when they are read. Shards are first copied to host memory: on CUDA by a stream of its
own while the next step computes, which waits for it before it changes weights.
"""

import warnings
from collections.abc import Callable
from threading import Thread

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import Tensor
from torch.distributed.checkpoint import HuggingFaceStorageWriter
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor

from regard.training.checkpoint import Checkpoints, RunProgress, Tensors, checksum_of_file
from regard.training.distributed import World
from regard.training.parallel import CheckpointWriter


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
        self.copied: torch.cuda.Event | None = None  # the end of the copies
        self.buffers: dict[str, Tensor] = {}
        self.thread: Thread | None = None
        self.error: BaseException | None = None

    def save(self, progress: RunProgress, tensors: Tensors, done: Callable[[], None]) -> None:
        """Begin to write a checkpoint, once the one before it is written."""
        self.wait()
        if self.world.is_leader:
            self.checkpoints.begin(progress.step)
        self.world.barrier()  # the folder is there
        named = {
            f"{group}/{name}": x for group, part in tensors.items() for name, x in part.items()
        }
        staged = self._stage(named)
        self.thread = Thread(
            target=self._write, args=(progress, staged, self.copied, done), daemon=True
        )
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
        self._raise_error()
        if self.copied is not None:
            torch.cuda.current_stream().wait_event(self.copied)

    def _stage(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """Copies in host memory; on CUDA they are complete after the event ``copied``."""
        if self.stream is None:
            return {name: self._on_host(x, local_part(x).clone()) for name, x in tensors.items()}
        self.stream.wait_stream(torch.cuda.current_stream())
        staged = {}
        with torch.cuda.stream(self.stream):
            for name, tensor in tensors.items():
                own = local_part(tensor)
                if name not in self.buffers or self.buffers[name].shape != own.shape:
                    self.buffers[name] = torch.empty_like(own, device="cpu", pin_memory=True)
                own.record_stream(self.stream)
                self.buffers[name].copy_(own, non_blocking=True)
                staged[name] = self._on_host(tensor, self.buffers[name])
        self.copied = self.stream.record_event()
        return staged

    def _on_host(self, tensor: Tensor, copy: Tensor) -> Tensor:
        """A copy with the place of the tensor in the whole."""
        return divided_like(copy, tensor, self.mesh)

    def _write(
        self,
        progress: RunProgress,
        staged: dict[str, Tensor],
        copied: torch.cuda.Event | None,
        done: Callable[[], None],
    ) -> None:
        try:
            if copied is not None:
                copied.synchronize()
            place = self.checkpoints.temporary(progress.step)
            writer = HuggingFaceStorageWriter(str(place), save_distributed=True)
            with self.checkpoints.written():
                dcp.save(staged, storage_writer=writer, process_group=self.group)
                files = place.glob(f"shard-{self.world.rank + 1:05d}-*")
                own = {path.name: checksum_of_file(path) for path in files}
                everyone = [own for _ in range(self.world.size)]
                dist.all_gather_object(everyone, own, group=self.group)
                if self.world.is_leader:
                    checksums = {name: crc for part in everyone for name, crc in part.items()}
                    self.checkpoints.commit(progress, checksums)
                    done()
        except BaseException as error:
            self.error = error


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
