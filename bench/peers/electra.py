"""transformers' two ELECTRA models, joined as a careful user would: it has no training of both."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from corpus import MaskedRow, batches_of, masked_rows
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy
from transformers import ElectraConfig, ElectraForMaskedLM, ElectraForPreTraining

from peers.common import System, compiled, device, rounds_over, send, training_step

MODES = {"eager": None, "compiled": "", "captured": "reduce-overhead"}


class Pair(nn.Module):
    """Generator and discriminator (sdpa) with one set of embeddings."""

    def __init__(self, generator: dict[str, Any], discriminator: dict[str, Any], weight: float):
        super().__init__()
        of_generator, of_discriminator = (
            ElectraConfig(**config, attn_implementation="sdpa")
            for config in (generator, discriminator)
        )
        self.generator = ElectraForMaskedLM(of_generator)
        self.discriminator = ElectraForPreTraining(of_discriminator)
        embeddings = self.discriminator.electra.embeddings
        self.generator.electra.embeddings = embeddings
        self.generator.generator_lm_head.weight = embeddings.word_embeddings.weight
        self.weight = weight

    def forward(self, ids: Tensor, mask: Tensor, positions: Tensor, originals: Tensor) -> Tensor:
        """The loss: as many ``positions`` are masked in every row, so that shapes are fixed."""
        states = self.generator.electra(input_ids=ids, attention_mask=mask).last_hidden_state
        masked = states.gather(1, positions[..., None].expand(-1, -1, states.shape[-1]))
        predictions = self.generator.generator_predictions(masked)
        logits = self.generator.generator_lm_head(predictions).float()
        of_generator = cross_entropy(logits.flatten(0, 1), originals.flatten())
        read = ids.scatter(1, positions, drawn(logits))
        replaced = read != ids.scatter(1, positions, originals)
        states = self.discriminator.electra(input_ids=read, attention_mask=mask).last_hidden_state
        scores = self.discriminator.discriminator_predictions(states).float()
        of_tokens = binary_cross_entropy_with_logits(
            scores, replaced.float(), weight=mask.float(), reduction="sum"
        )
        return of_generator + self.weight * of_tokens / mask.sum()


@torch.no_grad()
def drawn(logits: Tensor) -> Tensor:
    """A token from each softmax: the first of exponential clocks with these rates to ring."""
    return (logits.softmax(-1) / torch.empty_like(logits).exponential_()).argmax(-1)


def collated(rows: Sequence[MaskedRow]) -> dict[str, np.ndarray]:
    """Rows of one length with as many masked positions each."""
    ids = np.stack([row.tokens for row in rows])
    tables = {"ids": ids, "mask": np.ones_like(ids)}
    tables["positions"] = np.stack([row.positions for row in rows])
    tables["originals"] = np.stack([row.originals for row in rows])
    return {name: table.astype(np.int64) for name, table in tables.items()}


def replaced_tokens(
    form: str,
    configs: dict[str, Any],
    weight: float,
    corpus: dict[str, Any],
    rows: int,
    optimiser: dict[str, Any],
) -> System:
    """A step of both models: eager, compiled as one function, or captured by CUDA graphs too."""
    place, mode = device(), MODES[form]
    pair = Pair(**configs, weight=weight).to(place).train()

    def collate(batch: Sequence[MaskedRow]) -> dict[str, Tensor]:
        return {name: send(table, place) for name, table in collated(batch).items()}

    captured = form == "captured" and place.type == "cuda"
    forward = compiled(pair, mode)
    step = training_step(pair, forward, collate, optimiser, place, captured=captured)
    return rounds_over(step, batches_of(masked_rows(**corpus), rows))
