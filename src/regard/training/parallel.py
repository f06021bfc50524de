"""How processes share a model. Here: a whole copy in each; ``training.sharding`` divides it.

The training loop asks a ``Parallel`` for these things and knows no other kind.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

from regard.core.errors import BadInput
from regard.models.trunk import StackModule
from regard.training.checkpoint import Checkpoints, RunProgress, Tensors
from regard.training.distributed import World
from regard.training.precision import Precision
from regard.training.recipe.tables import DistributedConfig, OptimiserConfig
from regard.weights.tensor_pieces import TensorPieces

BYTES = 16  # of a weight in training: fp32 weight, gradient and two moments
GROUPED = 1 << 25  # weights of successive blocks that are gathered together, unless one has more
ROOM = 0.5  # share of a GPU's memory beyond which "auto" divides weights, moments and gradients


class CheckpointWriter:
    """Writer of the checkpoints of a run of which the leader has all tensors."""

    def __init__(self, checkpoints: Checkpoints, world: World):
        self.checkpoints, self.world = checkpoints, world

    def save(self, progress: RunProgress, tensors: Tensors, done: Callable[[], None]) -> None:
        """Write a checkpoint; then the leader calls ``done``."""
        if self.world.is_leader:
            self.checkpoints.save(progress, tensors)
            done()
        self.world.barrier()

    def wait(self) -> None:
        """Wait for the checkpoint that is being written; raise its error."""


class Parallel:
    """Copies of the model: whole in every process; DDP averages the gradients of several."""

    kind, sharded = "ddp", False
    precision: Precision | None = None  # of the weights that a forward pass reads; None: any

    def __init__(self, world: World):
        self.world = world

    @property
    def gradient_scale(self) -> float:
        """Factor on the loss of each process by which its gradients become gradients of the sum."""
        return float(self.world.size)

    def place(self, model: nn.Module, *, trained: bool = True) -> None:
        """Move a model to the device of this process."""
        model.to(self.world.device)

    def wrap(self, model: nn.Module) -> nn.Module:
        """The model that is called in a step."""
        if self.world.size == 1:
            return model
        device = self.world.device
        return DistributedDataParallel(
            model, device_ids=[device.index] if device.type == "cuda" else None
        )

    def gradient_sync(self, wrapped: nn.Module, last: bool) -> AbstractContextManager:
        """Context of a slice of a step: gradients are synchronised with the last one."""
        if last or self.world.size == 1:
            return nullcontext()
        return cast(DistributedDataParallel, wrapped).no_sync()

    def whole(self, *models: nn.Module) -> AbstractContextManager:
        """Block in which each process may run placed models alone."""
        return nullcontext()

    def read(self, pieces: TensorPieces, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The tensors of a checkpoint that belong to these weights: themselves, or ``NAME/key``."""
        return pieces.read_all()

    def writer(self, checkpoints: Checkpoints) -> CheckpointWriter:
        """The writer of the checkpoints of a run."""
        return CheckpointWriter(checkpoints, self.world)

    def await_copies(self) -> None:
        """Wait until weights have been copied for a checkpoint; called before they change.

        An error of a checkpoint that is written in the background is raised here, at every step.
        """

    def local(self, tensor: Tensor) -> Tensor:
        """The part of a tensor that this process has, in the same memory."""
        return tensor

    def like(self, own: Tensor, tensor: Tensor) -> Tensor:
        """The tensor whose part in this process is ``own``, divided as ``tensor`` is."""
        return own

    def whole_tensor(self, tensor: Tensor) -> Tensor:
        """The whole of a tensor that may be divided; all processes must call it."""
        return tensor


class ExactSum(Parallel):
    """Copies of the model whose gradients have the same bits for any number of processes.

    The gradient of every slice is sent to all processes, which add them in the order of slices.
    """

    def __init__(self, world: World):
        super().__init__(world)
        self.sums: dict[nn.Parameter, Tensor] = {}

    @property
    def gradient_scale(self) -> float:
        return 1.0

    def place(self, model: nn.Module, *, trained: bool = True) -> None:
        super().place(model)
        own = {name for name, _ in model.named_parameters(remove_duplicate=False)}
        if states := [name for name in model.state_dict() if name not in own]:
            changes = f"{states[0]} would differ between processes"
            raise BadInput(f"distributed.exact cannot be used with this model: {changes}")

    def wrap(self, model: nn.Module) -> nn.Module:
        return model

    @contextmanager
    def gradient_sync(self, wrapped: nn.Module, last: bool) -> Iterator[None]:
        """Take the gradient of a slice, and give the sum of all slices with the last one."""
        yield
        learning = [parameter for parameter in wrapped.parameters() if parameter.requires_grad]
        used = torch.tensor([parameter.grad is not None for parameter in learning])
        everywhere = torch.stack(self.world.all_gather(used)).tolist()
        for parameter, *by_rank in zip(learning, *everywhere, strict=True):
            if any(by_rank):
                self._add(parameter, by_rank)
        if last:
            for parameter, gradient in self.sums.items():
                parameter.grad = gradient
            self.sums = {}

    def _add(self, parameter: nn.Parameter, by_rank: Sequence[bool]) -> None:
        """Add the gradients of the processes that have one, in their order."""
        gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        parameter.grad = None
        for own, used in zip(self.world.all_gather(gradient), by_rank, strict=True):
            if not used:
                continue
            if parameter in self.sums:
                self.sums[parameter] += own
            else:
                self.sums[parameter] = own.clone()


def recompute_blocks(model: nn.Module) -> None:
    """Keep only the input of each block for the backward pass, which computes the block again
    (activation checkpointing: Chen et al., 2016, arXiv:1604.06174).
    """
    blocks = blocks_of(model)
    if not blocks:
        raise BadInput("distributed.checkpoint_blocks: the model has no blocks of attention")
    for block in blocks:
        block.forward = partial(_recomputed, block.forward)


def _recomputed(forward: Callable[..., Tensor], *inputs: object, **more: object) -> Tensor:
    if not torch.is_grad_enabled():
        return forward(*inputs, **more)
    return checkpoint(partial(forward, **more), *inputs, use_reentrant=False)


def blocks_of(model: nn.Module) -> list[nn.Module]:
    """The blocks of attention of all stacks of a model; recurrent and convolutional ones: none."""
    attending = [stack for stack in stacks_of(model) if stack.attends]
    return [block for stack in attending for block in cast(nn.ModuleList, stack.blocks)]


def blocks_together(stack: StackModule) -> list[list[nn.Module]]:
    """Blocks of attention of a stack whose weights are gathered together.

    FSDP expects that the blocks of a group run once each, by ``forward``: blocks that are repeated,
    and the last one, are alone.
    """
    if not stack.attends:
        return []
    groups, size = list[list[nn.Module]](), 0
    *blocks, last = cast(nn.ModuleList, stack.blocks)
    for block in blocks:
        size += (weights := sum(parameter.numel() for parameter in block.parameters()))
        if not groups or size > GROUPED or len(stack.order) > len(blocks) + 1:
            groups, size = [*groups, []], weights
        groups[-1].append(block)
    return [*groups, [last]]


def stacks_of(model: nn.Module) -> list[StackModule]:
    """All stacks of a model."""
    return [module for module in model.modules() if isinstance(module, StackModule)]


def check_processes(config: DistributedConfig, count: int) -> None:
    """Refuse a number of processes that cannot share a model in this way."""
    replicas, slices = config.replicas, config.shards
    if replicas and (count < 2 * replicas or count % replicas):
        need = f"{2 * replicas} processes, or more in steps of {replicas}; there are {count}"
        copies = f"{replicas} copies, each divided among processes, need {need}"
        remedy = 'start as many, change replicas, or set kind = "fsdp"'
        raise BadInput(f"distributed.replicas: {copies}: {remedy}")
    if config.exact and slices % count:
        dealt = f"{slices} slices of a step cannot be dealt to {count} processes evenly"
        raise BadInput(f"distributed.shards: {dealt}; set it to a multiple of {count}")


def decided_sharing(
    config: DistributedConfig,
    model: nn.Module,
    optimiser: OptimiserConfig,
    count: int,
    memory: float | None,
) -> DistributedConfig:
    """The config for ``count`` processes, in which kind "auto" is replaced by its decision.

    Each process has a GPU of ``memory`` bytes; None: a CPU, or a GPU that is not known. What
    "fsdp" refuses is not divided.
    """
    check_processes(config, count)
    if not config.decides:
        return config
    needed = BYTES * sum(parameter.numel() for parameter in model.parameters())
    too_large = memory is not None and needed >= ROOM * memory
    whole = config.exact or optimiser.needs_whole_weights or indivisible_weight(model) is not None
    divides = count > 1 and too_large and not whole
    return config.model_copy(update={"kind": "fsdp" if divides else "ddp"})


def indivisible_weight(model: nn.Module) -> str | None:
    """Name of a weight that is one number, which cannot be divided; None: there is none."""
    return next((name for name, weight in model.named_parameters() if not weight.ndim), None)
