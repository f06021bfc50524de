"""Writer of shards: every process writes its own to a checkpoint, in the background.

torch.distributed.checkpoint plans which process writes what. Files are safetensors, so that nothing
is unpickled when they are read. Shards are first copied to host memory, on CUDA while the next step
computes, which waits for the copies before it changes weights. All that holds Python's lock for
long happens once: a thread that holds it delays the launches of the next steps.
"""

from collections.abc import Callable, Mapping
from threading import Event, Thread
from typing import NamedTuple, cast

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.checkpoint import DefaultSavePlanner, SavePlan
from torch.distributed.checkpoint.planner import TensorWriteData
from torch.distributed.tensor import DTensor

from regard.core.errors import BadInput, one_line
from regard.training.checkpoint import SHARD, TENSORS, Checkpoints, RunProgress, Tensors
from regard.training.distributed import World
from regard.training.parallel import CheckpointWriter
from regard.weights.tensor_pieces import write_one_by_one

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


class ShardWriter(CheckpointWriter):
    """Writer of the checkpoints of a run whose weights are divided."""

    def __init__(self, checkpoints: Checkpoints, world: World):
        super().__init__(checkpoints, world)
        alone = world.size == 1
        # Of its own, as the main thread uses the other.
        self.group = None if alone else dist.new_group(backend="gloo", timeout=world.limit)
        self.copies = HostCopies(world.device)
        self.copying = Event()  # set once all copies have begun
        self.planned: dict[str, torch.Size] = {}  # shapes of the tensors that have a plan
        self.begins: dict[str, torch.Size] = {}  # where the pieces begin that this process writes
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
        shapes = {name: tensor.shape for name, tensor in named.items()}
        if shapes != self.planned:
            self.planned, self.begins = shapes, self._plan(named)
        self.copies.follow()
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
        self.copies.precede()

    def _plan(self, tensors: dict[str, Tensor]) -> dict[str, torch.Size]:
        """Names of the pieces that this process writes, and where each begins in its tensor."""
        planner = DefaultSavePlanner(flatten_state_dict=False, flatten_sharded_tensors=False)
        planner.set_up_planner(tensors, is_coordinator=self.world.is_leader)
        plan = self._exchange(planner.create_local_plan(), planner)
        items = planner.finish_plan(plan).items
        return {
            item.index.fqn: cast(TensorWriteData, item.tensor_data).chunk.offsets for item in items
        }

    def _exchange(self, own: SavePlan, planner: DefaultSavePlanner) -> SavePlan:
        """The plan of this process, which the leader makes from the plans of all processes."""
        if self.world.size == 1:
            return planner.create_global_plan([own])[0][0]
        leader = self.world.is_leader
        plans: list[SavePlan] = [own] * self.world.size if leader else []
        dist.gather_object(own, plans if leader else None, group=self.group)
        received = [own]
        made = planner.create_global_plan(plans)[0] if leader else None
        dist.scatter_object_list(received, made, group=self.group)
        return received[0]

    def _write(
        self, progress: RunProgress, tensors: dict[str, Tensor], done: Callable[[], None]
    ) -> None:
        try:
            with self.checkpoints.written():
                checksums = self._write_shards(progress, tensors)
                if self.world.is_leader:
                    self.checkpoints.commit(progress, checksums)
                    done()
        except BaseException as error:
            self.error = error
        finally:
            self.copying.set()

    def _write_shards(self, progress: RunProgress, tensors: dict[str, Tensor]) -> dict[str, int]:
        """The checksums of the files of all processes; an error of one process ends all."""
        own: tuple[dict[str, int], str]
        try:
            own = self._write_own(progress, tensors), ""
        except (OSError, BadInput, MemoryError, RuntimeError) as error:
            own = {}, one_line(str(error))
        everyone = [own] * self.world.size
        if self.group is not None:
            dist.all_gather_object(everyone, own, group=self.group)
        for rank, (_, fault) in enumerate(everyone):
            if fault:
                raise BadInput(f"process {rank}: {fault}" if self.world.size > 1 else fault)
        return {name: checksum for checksums, _ in everyone for name, checksum in checksums.items()}

    def _write_own(self, progress: RunProgress, tensors: dict[str, Tensor]) -> dict[str, int]:
        """Copy and write the pieces of this process; the checksum of its file, if it has one."""
        parts = {name: local_part(tensors[name]) for name in self.begins}
        copies = self.copies.begin(parts)
        self.copying.set()
        self.copies.wait()
        parts.clear()
        tensors.clear()  # not before, as their memory could have been used again
        if not copies:
            return {}
        name = f"{SHARD}{self.world.rank + 1:05d}{TENSORS}"
        path = self.checkpoints.temporary(progress.step) / name
        return {name: write_one_by_one(path, copies, copies, self.begins)}


def as_divided(tensor: Tensor) -> DTensor | None:
    """The tensor, if it is divided among processes."""
    return tensor if isinstance(tensor, DTensor) else None


def local_part(tensor: Tensor) -> Tensor:
    """The part of a tensor that this process has, in the same memory."""
    divided = as_divided(tensor)
    return tensor if divided is None else divided.to_local()


def divided_like(own: Tensor, tensor: Tensor) -> Tensor:
    """The tensor whose part in this process is ``own``, divided as ``tensor`` is."""
    if (like := as_divided(tensor)) is None:
        return own
    shape, stride = like.shape, like.stride()
    return DTensor.from_local(
        own, like.device_mesh, like.placements, run_check=False, shape=shape, stride=stride
    )
