"""regard's side of the scripts: the training step of ``regard train``, on data of corpus.py."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from corpus import MaskedRow
from peers.common import Step, half
from peers.decoding import Marks
from torch import Tensor, nn

from regard.core.batch import Batch, BatchLimits, TokenRow
from regard.core.pytree import map_tensors
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.facts import change
from regard.models.papers import bahdanau, gpt2, llama, marian
from regard.objectives.rows import AnnotatedRow
from regard.training.loop.microbatch import EagerStep, GraphedStep
from regard.training.optimiser import GraphedOptimiser, ModelOptimiser
from regard.training.recipe.tables import OptimiserConfig
from regard.weights.files import weights_of, write_tensors
from regard.weights.weight_map import Extras

# The translator of the recipe ladder-multi30k-en-de.
BAHDANAU = change(bahdanau.LAPTOP, vocab=8_000, width=512, embedding=256, maxout=256, dropout=0.4)
# GPT-2's sizes, and a model of the size of its "small" in the manner of Llama 3.
LLAMA = change(
    llama.LLAMA_2,
    vocab=50_304,
    width=768,
    depth=12,
    heads=12,
    kv_heads=4,
    inner=2_048,
    longest=1_024,
)
CAUSAL = {
    **{size: (gpt2.PAPER, facts) for size, facts in gpt2.PAPER.sizes.items()},
    "llama-124m": (llama.PAPER, LLAMA),
}
BAHDANAU_TINY = {"vocab": 1_000, "width": 32, "embedding": 16, "maxout": 16}


def training_step(
    model: nn.Module,
    objective: Any,
    collate: Callable[[Any], Batch],
    optimiser: dict[str, Any],
    device: torch.device,
    *,
    weight: Callable[[Any, Batch], Any] = lambda rows, batch: batch.weight,
    compiles: bool = True,
    captures: bool = True,
    state: Any = None,
    precision: Callable[[], Any] | None = None,
    **graphs: Any,
) -> Step:
    """A step as the training loop makes it; it gives the loss of a target.

    On CUDA forward is compiled if it ``compiles``; if it ``captures``, forward and backward are a
    CUDA graph and the update is another. An objective over streams begins with a ``state`` and
    carries it on; ``graphs`` are options of ``GraphedStep``.
    """
    model, cuda = model.to(device).train(), device.type == "cuda"
    objective.to(device)
    forward = lambda batch: objective(model, batch)  # noqa: E731
    context = precision or (lambda: half(device))
    eager = EagerStep(torch.compile(forward) if cuda and compiles else forward, context)
    micro = GraphedStep(eager, model, **graphs) if cuda and captures else eager
    config = OptimiserConfig(**optimiser)
    updates = (GraphedOptimiser if cuda and captures else ModelOptimiser)(model, config)

    def step(rows: Any) -> Tensor:
        nonlocal state
        batch = replace(collate(rows).to(device), state=state)
        weights = weight(rows, batch)
        result = micro(batch, 1 / weights)
        state = map_tensors(Tensor.detach, result.state)
        loss = mean_loss(result.loss, weights)
        updates.step(1.0)
        updates.zero_grad()
        return loss

    return step


def mean_loss(losses: Tensor, weights: Any) -> Tensor:
    """The sum of losses, each by its weight, as a new tensor: a replay overwrites the old one."""
    if losses.ndim == 0:
        return losses / float(weights)
    return torch.stack(
        [a / b for a, b in zip(losses, np.ravel(weights).tolist(), strict=True)]
    ).sum()


def annotated(row: MaskedRow) -> AnnotatedRow:
    """A masked row as objectives read it."""
    tokens = TokenRow(row.tokens, np.zeros(len(row.tokens), dtype=np.int32))
    return AnnotatedRow(tokens, {"mlm": row.positions}, {"mlm": row.originals})


def packed(
    rows: Sequence[MaskedRow], limits: BatchLimits, draw: np.random.Generator
) -> list[list[MaskedRow]]:
    """Rows in random order, as many as fit a budget together, longest first."""
    batches: list[list[MaskedRow]] = [[]]
    for at in draw.permutation(len(rows)):
        together = [*batches[-1], rows[at]]
        tokens = sum(len(row.tokens) for row in together)
        if len(together) > limits.rows or tokens > limits.tokens:
            batches.append([])
        batches[-1].append(rows[at])
    return [sorted(batch, key=lambda row: -len(row.tokens)) for batch in batches]


def write_marian(model: nn.Module, facts: EncoderDecoder, marks: Marks, folder: Path) -> None:
    """Write a translator as transformers' Marian reads it."""
    config = {
        **marian.HF.config_of(facts),
        "max_position_embeddings": 1_024,
        "pad_token_id": marks.pad,
        "eos_token_id": marks.eos,
        "decoder_start_token_id": marks.bos,
        "forced_eos_token_id": None,
    }
    (folder / "config.json").write_text(json.dumps(config))
    weights = marian.HF.weights.write(weights_of(model), Extras())
    write_tensors(folder / "model.safetensors", weights)
