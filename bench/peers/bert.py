"""transformers' BertForMaskedLM (sdpa), padded, in the forms that a user can give it."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from corpus import MaskedRow, bucketed_rows, masked_rows, row_padding
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import BertConfig, BertForMaskedLM

from peers.common import (
    System,
    compile_layers,
    compiled,
    device,
    padded,
    rounds_over,
    send,
    training_step,
)

IGNORED, MULTIPLE = -100, 64
MODES = {
    "eager": None,
    "compiled": "",
    "captured": "reduce-overhead",
    "unmasked": "",
    "gathered": "",
}


def masked_lm(
    form: str, config: dict[str, Any], corpus: dict[str, Any], rows: int, optimiser: dict[str, Any]
) -> System:
    """A step of masked LM over batches of ``rows``.

    "eager" and "compiled", as one function of body, head and loss, have an attention mask and
    logits at all positions; "captured" is compiled with CUDA graphs; "unmasked" is compiled without
    a mask; "gathered" is compiled with logits at masked positions only. Ragged rows are compiled
    layer by layer for any length.
    """
    ragged, place = corpus["ragged"], device()
    model = BertForMaskedLM(BertConfig(**config, attn_implementation="sdpa")).to(place).train()

    def loss_of(states: Tensor, goals: Tensor) -> Tensor:
        return cross_entropy(model.cls(states).flatten(0, 1), goals.flatten())

    def forward(goals: Tensor, **inputs: Tensor) -> Tensor:
        return loss_of(model.bert(**inputs).last_hidden_state, goals)

    def gathered(positions: Tensor, originals: Tensor, **inputs: Tensor) -> Tensor:
        states = model.bert(**inputs).last_hidden_state
        at = positions[..., None].expand(-1, -1, states.shape[-1])
        return loss_of(states.gather(1, at), originals)

    if ragged and form != "eager":
        compile_layers(model.bert.encoder.layer)
        loss_of = torch.compile(loss_of, dynamic=True)
        run: Any = forward
    else:
        run = compiled(gathered if form == "gathered" else forward, MODES[form])

    def collate(batch: Sequence[MaskedRow]) -> dict[str, Tensor]:
        multiple = MULTIPLE if ragged else 1
        tables = {"input_ids": padded([row.tokens for row in batch], 0, multiple)}
        if form != "unmasked":
            ones = [row.tokens > 0 for row in batch]
            tables["attention_mask"] = padded(ones, 0, multiple)
        if form == "gathered":
            tables["positions"] = padded([row.positions for row in batch], 0)
            tables["originals"] = padded([row.originals for row in batch], IGNORED)
        else:
            goals = np.full_like(tables["input_ids"], IGNORED)
            for line, row in zip(goals, batch, strict=True):
                line[row.positions] = row.originals
            tables["goals"] = goals
        return {name: send(table, place) for name, table in tables.items()}

    captured = form == "captured" and place.type == "cuda"
    step = training_step(model, run, collate, optimiser, place, captured=captured)
    batches = bucketed_rows(masked_rows(**corpus), rows)
    padding = row_padding(batches, MULTIPLE if ragged else 1)
    return rounds_over(step, batches, padding=round(padding, 3))
