"""transformers' GPT-2 with torch's FSDP2 for each layer and gradient checkpointing, as a peer."""

import os
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from corpus import batches_of, blocks
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn.functional import cross_entropy

from peers.common import System, Updates, device, rounds_over, send


def causal_lm(
    config: dict[str, Any], corpus: dict[str, Any], rows: int, optimiser: dict[str, Any]
) -> System:
    """A step of causal LM over batches of ``rows``: bf16 weights and sums of gradients in fp32."""
    from transformers import GPT2Config, GPT2LMHeadModel

    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    place = device()
    backend = "nccl" if place.type == "cuda" else "gloo"
    dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)
    known = {key: value for key, value in config.items() if key not in ("architectures",)}
    settings = GPT2Config(**known, attn_implementation="sdpa", use_cache=False)
    with place:
        model = GPT2LMHeadModel(settings).train()
    model.gradient_checkpointing_enable({"use_reentrant": False})
    half = torch.bfloat16 if place.type == "cuda" else None
    policy = MixedPrecisionPolicy(param_dtype=half, reduce_dtype=half and torch.float32)
    mesh = init_device_mesh(place.type, (1,))
    for layer in model.transformer.h:
        fully_shard(layer, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    updates = Updates(model, optimiser)

    def step(batch: np.ndarray) -> Tensor:
        tokens_BL = send(batch[:, :-1].copy(), place)
        targets_BL = send(batch[:, 1:].copy(), place)
        logits_BLV = model(tokens_BL).logits
        loss = cross_entropy(logits_BLV.flatten(0, 1).float(), targets_BL.flatten())
        loss.backward()
        updates.step()
        return loss.detach()

    return rounds_over(step, batches_of(blocks(**corpus), rows))
