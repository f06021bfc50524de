"""Estimate of the GPU memory and of the time of a training step, of one process among several.

Weights, gradients and moments are counted. Activations are what torch keeps for the backward pass
of a block (after Korthikanti et al., 2022, arXiv:2205.05198, section 4.1, with attention that keeps
no weights): the inputs of linear layers, the outputs that a nonlinearity or attention reads, the
masks of dropout and the fp32 inputs of norms. Attention with a learned position bias keeps tables
of all pairs, and padded copies of queries, keys, values and results. Compiled steps keep less.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import cast

from torch import nn

from regard.core.errors import BadInput, did_you_mean
from regard.layers.block import Block
from regard.training.parallel import blocks_of, blocks_together, stacks_of
from regard.training.recipe.tables import OPTIMISERS, DistributedConfig

GIB, MIB = 1 << 30, 1 << 20
FP32 = 4
GPUS = {  # memory in GiB
    **{"h100-80g": 80, "h200-141g": 141, "a100-80g": 80, "a100-40g": 40, "b200-180g": 180},
    **{"l40s-48g": 48, "a10g-24g": 24, "l4-24g": 24, "rtx4090-24g": 24},
    **{"v100-32g": 32, "v100-16g": 16, "t4-16g": 16},
}
RATES = {  # TFLOP/s of dense products in bf16 that vendors publish
    **{"h100-80g": 989, "h200-141g": 989, "a100-80g": 312, "a100-40g": 312, "b200-180g": 2_250},
    **{"l40s-48g": 362, "a10g-24g": 70, "l4-24g": 121, "rtx4090-24g": 165},
}
REACHED = 784 / 989  # share of the published rate that large products reached on an H200
MFU = {False: 0.52, True: 0.43}  # plain, and of divided weights or recomputed blocks
SOURCE = {False: "GPT-2", True: "GPT-2 XL"}  # measured on an H200: bench/RESULTS.md
USABLE = 0.92  # of the memory: the rest is for CUDA, kernels, NCCL and fragments
MLP, DROPOUT = "mlp", "dropout"  # names of parts of a block
RESIDUAL = ("o", "down")  # linear layers whose outputs are added to the states, and not kept
LOGITS = 12  # bytes of a logit at the loss: log-probabilities and two gradients in fp32
PAIR = 4  # bytes of a query and a key of a head with a learned bias, as T5-3B had them on an H200
AHEAD = 2  # blocks whose weights are whole: the one that runs, and the next


@dataclass(frozen=True)
class MemoryEstimate:
    """Bytes of a process at the peak of a step.

    ``gathered`` are weights in the precision of forward passes, ``reduced`` whole gradients on
    their way to their shards.
    """

    weights: float
    gathered: float
    gradients: float
    reduced: float
    moments: float
    activations: float
    logits: float

    @property
    def total(self) -> float:
        """The larger of the memory before and after the backward pass."""
        resident = self.weights + self.moments
        forward = self.gathered + self.activations + self.logits
        return resident + max(forward, self.gradients) + self.reduced

    def lines(self) -> list[tuple[str, str]]:
        """Parts and the total in GiB, or MiB if they are smaller, for a table."""
        parts = [(item.name, getattr(self, item.name)) for item in fields(self)]
        return [(name, _shown(size)) for name, size in [*parts, ("total", self.total)]]


def _shown(size: float) -> str:
    return f"{size / GIB:,.2f} GiB" if size >= GIB else f"{size / MIB:,.2f} MiB"


@dataclass(frozen=True)
class StepShape:
    """Sizes of a slice of a step: ``tokens`` of each stack, and targets with ``logits`` each.

    ``pairs`` are the queries and keys of a head over all rows, padded.
    """

    tokens: int
    targets: int
    logits: int
    pairs: int
    accumulated: bool = False


def estimate_memory(
    model: nn.Module,
    step: StepShape,
    config: DistributedConfig,
    *,
    ranks: int = 1,
    optimiser: str = "adamw",
    half: bool = True,
    averaged: bool = False,
) -> MemoryEstimate:
    """The memory of one of ``ranks`` processes; ``averaged``: with an average of the weights."""
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    count = sum(p.numel() for p in model.parameters())
    blocks = blocks_of(model)
    groups = [group for stack in stacks_of(model) for group in blocks_together(stack)]
    sizes = [sum(p.numel() for block in group for p in block.parameters()) for group in groups]
    largest, rest = max(sizes, default=0), count - sum(sizes)
    width = 2 if half else FP32
    shards = ranks // max(1, config.replicas) if config.sharded else 1
    if config.sharded:
        whole = rest + (min(AHEAD * largest, sum(sizes)) if config.reshard else sum(sizes))
        gathered = width * whole
        reduced = (width + FP32) * max(largest, rest) if ranks > 1 else FP32 * max(largest, rest)
    else:
        gathered = width * count if half else 0  # copies of the weights of products
        reduced = FP32 * trained if ranks > 1 else 0  # buckets of DDP
    persistent = FP32 * trained / shards if step.accumulated else 0
    return MemoryEstimate(
        weights=FP32 * (1 + averaged) * count / shards,
        gathered=gathered,
        gradients=FP32 * trained / shards,
        reduced=reduced + persistent,
        moments=FP32 * OPTIMISERS[optimiser].moments * trained / shards,
        activations=_kept(blocks, step, config, width),
        logits=LOGITS * step.targets * step.logits,
    )


def has_uncounted_layers(model: nn.Module) -> bool:
    """Whether a model has recurrent or convolutional layers, whose activations are not counted."""
    return not all(stack.attends for stack in stacks_of(model))


def _kept(
    blocks: Sequence[nn.Module], step: StepShape, config: DistributedConfig, width: int
) -> float:
    """Bytes that blocks keep for the backward pass."""
    each = [step.tokens * _kept_of_token(b, width) + step.pairs * _kept_of_pair(b) for b in blocks]
    if not config.checkpoint_blocks or not each:
        return sum(each)
    inputs = sum(_state_size(block) * FP32 for block in blocks)
    return step.tokens * inputs + max(each)


def _kept_of_token(block: nn.Module, width: int) -> float:
    states, copies = _state_size(block), 2 if _has_learned_bias(block) else 1
    size = 2 * FP32 * states  # the norms of both sublayers
    for name, module in block.named_modules():
        part, _, layer = name.rpartition(".")
        inner = part == MLP
        if isinstance(module, nn.Linear) and layer in RESIDUAL:
            size += width * module.in_features * (1 if inner else copies)
        elif isinstance(module, nn.Linear):
            size += width * (module.in_features + module.out_features * (1 if inner else copies))
        elif layer == DROPOUT and module.rate:
            size += cast(Block, block).mlp.down.in_features if inner else states
    return size


def _kept_of_pair(block: nn.Module) -> int:
    """Bytes of the tables of all heads of self-attention."""
    return PAIR * cast(Block, block).attention.heads.count if _has_learned_bias(block) else 0


def _has_learned_bias(block: nn.Module) -> bool:
    """Whether the score of self-attention has weights."""
    return any(True for _ in cast(Block, block).attention.score.parameters())


def _state_size(block: nn.Module) -> int:
    layers = [module for module in block.modules() if isinstance(module, nn.Linear)]
    return layers[0].in_features if layers else 0


def estimate_seconds(flops: float, gpu: str, config: DistributedConfig) -> tuple[float, str] | None:
    """Seconds of a step of ``flops`` operations in one process, and the assumptions.

    None: the GPU has no products in bf16.
    """
    if gpu not in RATES:
        return None
    slower = config.sharded or config.checkpoint_blocks
    rate = REACHED * RATES[gpu]
    where = f"as {SOURCE[slower]} on one H200, bench/RESULTS.md"
    assumed = f"{MFU[slower]:.0%} MFU of {rate:,.0f} TFLOP/s ({where})"
    return flops / (MFU[slower] * rate * 1e12), f"{assumed}, without communication"


def memory_of(gpu: str) -> float:
    """Bytes of a GPU."""
    if gpu not in GPUS:
        raise BadInput(f"no GPU is called {gpu!r}{did_you_mean(gpu, list(GPUS))}")
    return GPUS[gpu] * GIB


def capacity(gpu: str) -> float:
    """Bytes of a GPU that a run may use."""
    return USABLE * memory_of(gpu)


def check_fit(estimate: MemoryEstimate, gpu: str, remedies: Mapping[str, bool]) -> None:
    """Refuse a step that does not fit a GPU; ``remedies`` say which may still help."""
    free = capacity(gpu)
    if estimate.total > free:
        advice = ", ".join(name for name, helps in remedies.items() if helps)
        needed = f"{estimate.total / GIB:,.1f} GiB per process, {free / GIB:,.1f} are usable"
        raise BadInput(f"{gpu}: a step needs about {needed}; try {advice}")
