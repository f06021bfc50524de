"""Shards of weights, gradients and moments, one in each process (FSDP2).

A block's weights are gathered before it runs, and its gradients summed and divided again after it
(Zhao et al., 2023, arXiv:2304.11277). A block of attention, or successive small ones, are a group;
all other weights, and weights that several blocks share, are one group, which is whole from the
beginning of a forward pass to the end of its backward pass. So tied weights are never in two
groups, and recurrent stacks, whose cells read weights at every step, are one group. This file is
imported only by runs that divide weights: what it imports takes seconds.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from typing import cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import (
    FSDPModule,
    MixedPrecisionPolicy,
    fully_shard,
    register_fsdp_forward_method,
)

from regard.core.errors import BadInput
from regard.training.checkpoint import Checkpoints
from regard.training.distributed import World
from regard.training.parallel import (
    CheckpointWriter,
    Parallel,
    blocks_of,
    blocks_together,
    indivisible_weight,
    stacks_of,
)
from regard.training.precision import Precision
from regard.training.recipe.tables import DistributedConfig
from regard.training.shard_writer import ShardWriter, as_divided, divided_like, local_part
from regard.weights.tensor_pieces import TensorPieces

METHODS = ("first_tokens",)  # of last blocks, that stacks call besides ``forward``


class ShardedRun(Parallel):
    """Base class of runs whose checkpoints are written as shards, while the next steps run."""

    _writer: ShardWriter | None = None

    def writer(self, checkpoints: Checkpoints) -> CheckpointWriter:
        if not checkpoints.kept:
            return super().writer(checkpoints)
        self._writer = ShardWriter(checkpoints, self.world)
        return self._writer

    def await_copies(self) -> None:
        if self._writer is not None:
            self._writer.await_copies()


class OneShard(ShardedRun):
    """The shard of a run of one process: the whole model, of which nothing is gathered or summed.

    Steps are the same as in a run without shards.
    """


class Shards(ShardedRun):
    """Shards of weights, gradients and moments, one in each process (FSDP2).

    With ``config.replicas`` there is as many times a group of processes that share one copy (HSDP).
    Gradients are summed: the loss is divided by the weight of all targets of the step.
    """

    sharded = True

    def __init__(self, config: DistributedConfig, world: World, precision: Precision):
        super().__init__(world)
        self.config, self.kind, self.precision = config, config.kind, precision
        init_alone(world.device.type)
        self.mesh = self._mesh()

    def _mesh(self) -> DeviceMesh:
        """The processes in order; for HSDP a row of processes for each copy."""
        device, replicas, size = self.world.device.type, self.config.replicas, self.world.size
        if not replicas:
            return init_device_mesh(device, (size,))
        return init_device_mesh(
            device, (replicas, size // replicas), mesh_dim_names=("replicas", "shards")
        )

    @property
    def gradient_scale(self) -> float:
        return 1.0

    def place(self, model: nn.Module, *, trained: bool = True) -> None:
        """Divide the weights of a model; a model that is not ``trained`` is never kept whole."""
        if (name := indivisible_weight(model)) is not None:
            fault = f"the weight {name} is one number, which cannot be divided"
            raise BadInput(f'distributed.kind: {fault}; use "ddp"')
        half = self.precision is not None and self.precision.is_bf16
        policy = MixedPrecisionPolicy(
            param_dtype=torch.bfloat16 if half else None,
            reduce_dtype=torch.float32 if half else None,
            cast_forward_inputs=False,
        )
        shard = partial(fully_shard, mesh=self.mesh, mp_policy=policy)
        owners = _shared_owners(blocks_of(model))
        shared = {parameter for owner in owners for parameter in owner.parameters(recurse=False)}
        groups = [group for stack in stacks_of(model) for group in blocks_together(stack)]
        for blocks in groups:
            shard(
                blocks,
                ignored_params=shared,
                reshard_after_forward=self.config.reshard or not trained,
            )
        for block in (blocks[0] for blocks in groups if len(blocks) == 1):
            for method in METHODS:
                if method in dir(block):
                    register_fsdp_forward_method(block, method)
        # FSDP does not look into groups: for a moment, weights that blocks share are the model's.
        model.shared_between_blocks = nn.ModuleList(owners)
        shard(model, reshard_after_forward=not trained)
        del model.shared_between_blocks
        for group in _groups(model):
            group.set_gradient_divide_factor(1.0)
            group.set_force_sum_reduction_for_comms(True)  # gloo has no other
        # Otherwise the first module that runs would be the outermost: a block, if a model encodes.
        fully_shard.state(model)._lazy_init()  # type: ignore[attr-defined]

    def wrap(self, model: nn.Module) -> nn.Module:
        return model

    def gradient_sync(self, wrapped: nn.Module, last: bool) -> AbstractContextManager:
        """Gradients of every slice are divided at once, so that none is ever whole."""
        return nullcontext()

    @contextmanager
    def whole(self, *models: nn.Module) -> Iterator[None]:
        """Block in which all weights are whole, in the precision of forward passes.

        A process may run models alone, as no forward pass gathers anything.
        """
        groups = [group for model in models for group in _groups(model)]
        for group in groups:
            group.unshard()
        try:
            with ExitStack() as hooks:
                for group in groups:
                    hooks.enter_context(_without_hooks(cast(nn.Module, group)))
                yield
        finally:
            for group in groups:
                group.reshard()

    def read(self, pieces: TensorPieces, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return {
            name: _own_part(pieces, name, weights.get(name, weights.get(name.rpartition("/")[0])))
            for name in pieces
        }

    def local(self, tensor: Tensor) -> Tensor:
        return local_part(tensor)

    def like(self, own: Tensor, tensor: Tensor) -> Tensor:
        return divided_like(own, tensor)

    def whole_tensor(self, tensor: Tensor) -> Tensor:
        divided = as_divided(tensor)
        return tensor if divided is None else divided.full_tensor()


def init_alone(device: str) -> None:
    """Make a process group of this process alone, unless there is one."""
    if not dist.is_initialized():
        backend = "cpu:gloo,cuda:nccl" if device == "cuda" else "gloo"
        dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)


def _own_part(pieces: TensorPieces, name: str, tensor: Tensor | None) -> Tensor:
    """The part of a stored tensor that this process has of a tensor of its shape."""
    shape, like = pieces.shape(name), None if tensor is None else as_divided(tensor)
    if like is None or tuple(like.shape) != shape:
        return pieces[name]
    *_, dimension = range(like.device_mesh.ndim)
    rows = -(-shape[0] // like.device_mesh.size(dimension))  # of every part but the last ones
    begin = min(shape[0], rows * like.device_mesh.get_local_rank(dimension))
    local = like.to_local()
    own = pieces.part(name, (begin, *(0 for _ in shape[1:])), local.shape)
    return divided_like(own.to(local.device), like)


def _shared_owners(blocks: list[nn.Module]) -> list[nn.Module]:
    """Modules of several blocks that own weights, such as T5's table of distances."""
    counts = Counter(
        module
        for block in blocks
        for module in block.modules()
        if any(True for _ in module.parameters(recurse=False))
    )
    return [module for module, count in counts.items() if count > 1]


def _groups(model: nn.Module) -> list[FSDPModule]:
    return [module for module in model.modules() if isinstance(module, FSDPModule)]


@contextmanager
def _without_hooks(module: nn.Module) -> Iterator[None]:
    """Block in which calls of a module neither gather nor free its weights."""
    names = ("_forward_pre_hooks", "_forward_hooks")
    before = {name: vars(module)[name] for name in names}
    methods = {name: vars(module).pop(name) for name in METHODS if name in vars(module)}
    vars(module).update({name: type(hooks)() for name, hooks in before.items()})
    try:
        yield
    finally:
        vars(module).update({**before, **methods})
