"""transformers' XLNetLMHeadModel by permutation LM: masks of all pairs, two streams throughout."""

from typing import Any

import numpy as np
import torch
from corpus import batches_of
from torch import Tensor
from torch.nn.functional import cross_entropy, one_hot
from transformers import XLNetConfig, XLNetLMHeadModel
from worker import System

from peers.common import Step, Updates, device, half, rounds_over, send

ARRAYS = ("tokens", "segments", "orders", "positions")


def training_step(
    form: str,
    model: XLNetLMHeadModel,
    context: int,
    memory: int,
    optimiser: dict[str, Any],
    place: torch.device,
) -> Step:
    """A step over tables of ``ARRAYS``.

    A token sees those before it in the order; those of order ``context`` are not predicted, and see
    each other. The model is eager, has compiled "layers", or is "compiled" as a whole.
    """
    model = model.to(place).train()
    updates = Updates(model, optimiser)
    if form == "layers":
        for layer in model.transformer.layer:
            layer.compile()

    def forward(
        tokens_BL: Tensor, segments_BL: Tensor, order_BL: Tensor, at_BN: Tensor, mems: Any
    ) -> tuple[Tensor, Any]:
        context_BL = order_BL == context
        seen_BLL = order_BL[:, None] < order_BL[:, :, None]
        seen_BLL = seen_BLL | (context_BL[:, None] & context_BL[:, :, None])
        outputs = model(
            tokens_BL,
            token_type_ids=segments_BL,
            perm_mask=(~seen_BLL).float(),
            target_mapping=one_hot(at_BN, tokens_BL.shape[1]).float(),
            mems=mems,
            use_mems=bool(memory),
        )
        goals_BN = tokens_BL.gather(1, at_BN)
        return cross_entropy(outputs.logits.flatten(0, 1), goals_BN.flatten()), outputs.mems

    run = torch.compile(forward) if form == "compiled" else forward
    mems: Any = None

    def step(tables: list[np.ndarray]) -> Tensor:
        nonlocal mems
        if memory and mems is None:
            shape = memory, len(tables[0]), model.config.d_model
            layers = range(model.config.n_layer)
            mems = [torch.zeros(shape, device=place) for _ in layers]
        with half(place):
            loss, after = run(*(send(table, place) for table in tables), mems)
        mems = [state.detach().float() for state in after] if memory else None
        loss.backward()
        updates.step()
        return loss.detach()

    return step


def permutation_lm(
    form: str,
    config: dict[str, Any],
    corpus: str,
    rows: int,
    context: int,
    memory: int,
    optimiser: dict[str, Any],
) -> System:
    """Training on the rows and orders of a file."""
    model = XLNetLMHeadModel(XLNetConfig(**config, mem_len=memory or None))
    step = training_step(form, model, context, memory, optimiser, device())
    with np.load(corpus) as stored:
        tables = [batches_of(stored[name], rows) for name in ARRAYS]
    return rounds_over(step, list(zip(*tables, strict=True)))
