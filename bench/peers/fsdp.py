"""transformers' GPT-2 with FSDP2 for each layer and activation checkpointing, as a peer."""

import os
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from corpus import batches_of, blocks
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn.functional import cross_entropy

from peers.common import System, Updates, device, rounds_over, send

ALONE = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1"}  # as torchrun would tell accelerate


def causal_lm(
    config: dict[str, Any],
    corpus: dict[str, Any],
    rows: int,
    optimiser: dict[str, Any],
    divided_by: str = "torch",
    compiles: bool = False,
) -> System:
    """A step of causal LM over batches of ``rows``: bf16 weights and sums of gradients in fp32.

    If it ``compiles``, each layer is compiled.
    """
    from transformers import GPT2Config, GPT2LMHeadModel

    place = device()
    known = {key: value for key, value in config.items() if key not in ("architectures",)}
    settings = GPT2Config(**known, attn_implementation="sdpa", use_cache=False)
    with place:
        whole = GPT2LMHeadModel(settings).train()
    backend = "nccl" if place.type == "cuda" else "gloo"
    dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)
    prepare = {"torch": by_torch, "accelerate": by_accelerate}[divided_by]
    model, updates = prepare(whole, optimiser, place, compiles)

    def step(batch: np.ndarray) -> Tensor:
        tokens_BL = send(batch[:, :-1].copy(), place)
        targets_BL = send(batch[:, 1:].copy(), place)
        logits_BLV = model(tokens_BL).logits
        loss = cross_entropy(logits_BLV.flatten(0, 1).float(), targets_BL.flatten())
        loss.backward()
        updates.step()
        return loss.detach()

    return rounds_over(step, batches_of(blocks(**corpus), rows))


def by_torch(
    model: nn.Module, optimiser: dict[str, Any], place: torch.device, compiles: bool
) -> tuple[nn.Module, Updates]:
    """The model with transformers' gradient checkpointing and torch's FSDP2."""
    model.gradient_checkpointing_enable({"use_reentrant": False})
    half = torch.bfloat16 if place.type == "cuda" else None
    policy = MixedPrecisionPolicy(param_dtype=half, reduce_dtype=half and torch.float32)
    mesh = init_device_mesh(place.type, (1,))
    for layer in model.transformer.h:
        if compiles:
            layer.compile()
        fully_shard(layer, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    return model, Updates(model, optimiser)


def by_accelerate(
    model: nn.Module, optimiser: dict[str, Any], place: torch.device, compiles: bool
) -> tuple[nn.Module, Updates]:
    """The model with accelerate's activation checkpointing and FSDP2; on a CPU it has only DDP."""
    from accelerate import Accelerator, FullyShardedDataParallelPlugin
    from accelerate.utils import TorchDynamoPlugin

    os.environ.update(ALONE)
    cuda = place.type == "cuda"
    plugin = FullyShardedDataParallelPlugin(
        fsdp_version=2,
        auto_wrap_policy="transformer_based_wrap",
        transformer_cls_names_to_wrap=["GPT2Block"],
        activation_checkpointing=True,
        mixed_precision_policy=MixedPrecisionPolicy(torch.bfloat16, torch.float32),
    )
    inductor = TorchDynamoPlugin(backend="inductor", use_regional_compilation=True)
    accelerator = Accelerator(
        mixed_precision="bf16" if cuda else "no",
        cpu=not cuda,
        fsdp_plugin=plugin,
        dynamo_plugin=inductor if cuda and compiles else None,
    )
    updates = Updates(model, optimiser)
    model, updates.adam = accelerator.prepare(model, updates.adam)
    updates.parameters = list(model.parameters())
    return model, updates
