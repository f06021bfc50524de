"""Attention of a model on one input, recorded by a tape at its attention sites."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from regard.ground.batch import TokenRow, pack_rows, pack_texts
from regard.ground.errors import BadInput
from regard.ground.tape import Tape
from regard.inference.inputs import InputLimits
from regard.inside.attention.attention_map import AttentionMap, RolloutMap
from regard.models.attention_site import AttentionSite
from regard.models.encoder_decoder import ModelFacts
from regard.models.trunk_with_heads import Outputs
from regard.text.segmentation import LabelledImage, LabelledRow, TokenLabels


class SiteRecord(NamedTuple):
    """Attention weights of one site, (heads, queries, keys) for each layer, with labels.

    With ``rollout``, ``map`` returns the attention rollout through all layers.
    """

    site: AttentionSite
    queries: TokenLabels
    keys: TokenLabels
    layers: tuple[np.ndarray, ...]
    rollout: bool = False

    @property
    def allowed(self) -> np.ndarray | None:
        """Attention mask (queries, keys); None: every query may attend to every key."""
        lengths = len(self.queries.subwords), len(self.keys.subwords)
        return np.tri(*lengths, dtype=bool) if self.site.causal else None

    def map(self, *, subwords: bool = False) -> AttentionMap:
        """Attention map over words, or over subwords."""
        queries, keys = self.queries, self.keys
        labels = self.site.name, queries.subwords, keys.subwords
        tokens = AttentionMap(*labels, self.layers, self.allowed)
        if self.rollout:
            tokens = RolloutMap.of(tokens)
        if subwords:
            return tokens
        return tokens.merged(queries.words, keys.words, queries.groups, keys.groups)


Records = Sequence[SiteRecord]


def record_input(
    module: nn.Module, facts: ModelFacts, rows: Mapping[str, LabelledRow | LabelledImage]
) -> tuple[list[SiteRecord], Outputs]:
    """Run a model on one input; return the record of each attention site, and the outputs."""
    sites = facts.attention_sites
    if not sites:
        raise BadInput("this model has no attention to show")
    for side in facts.sides:
        InputLimits.of(getattr(module, side)).check_row(rows[side].row, 1)
    tape = Tape(*(name for site in sites for name in site.weights))
    inputs = facts.inputs(*(pack_texts([rows[side].row]) for side in facts.sides))
    with torch.inference_mode():
        outputs = module(inputs.to(next(module.parameters()).device), tape=tape)
    queries = {side: row.queries for side, row in rows.items()}
    queries["pool"] = TokenLabels.special("pool")
    records = []
    for site in sites:
        weights = tuple(tape.records[name][0].float().cpu().numpy() for name in site.weights)
        labels = queries[site.query_side], rows[site.key_side].keys
        records.append(SiteRecord(site, *labels, weights))
    return records, outputs


@torch.no_grad()
def tape_names(module: nn.Module, facts: ModelFacts) -> list[str]:
    """Names of all values that a tape can record or edit in a forward pass."""
    tape, sides = Tape(), [getattr(facts, side).ids_per_token for side in facts.sides]
    tokens = [pack_rows([TokenRow(np.zeros((1, *shape)), [0])]) for shape in sides]
    inputs = facts.inputs(*tokens)
    module(inputs.to(next(module.parameters()).device), tape=tape)
    return list(tape.names)
