"""A model with all that its folder says of it, whoever wrote the folder."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.ground.device import uninitialised
from regard.ground.errors import BadInput, reason_of
from regard.ground.reading import Reading
from regard.models.encoder_decoder import ModelFacts
from regard.models.formats.hf_format import HFExtras
from regard.models.paper import Paper
from regard.text.labels import LabelSet

CONFIG, WEIGHTS = "config.json", "model.safetensors"


@dataclass(frozen=True, eq=False)
class LoadedModel:
    """A model ready to run.

    ``notes`` is anything JSON that belongs to it: training cost, decoding and alignment settings.
    ``extras`` is what only the Hugging Face folder that it came from needs.
    """

    paper: Paper
    facts: ModelFacts
    module: nn.Module
    tokenizer: Reading | None = None
    labels: LabelSet | None = None
    notes: dict[str, Any] = field(default_factory=dict)
    extras: HFExtras | None = None


def build_facts(facts: ModelFacts, device: torch.device | str, where: str) -> nn.Module:
    """The model of facts that came from outside, for weights that are loaded next."""
    try:
        with uninitialised(device):
            return facts.build()
    except (TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise BadInput(f"{where}: its facts give no model ({reason_of(error)})") from None


def check_depth(facts: ModelFacts, tensors: int, where: str) -> None:
    """A stack of more layers than tensors is not even tried: it could be endless."""
    for side in facts.sides:
        if (blocks := getattr(facts, side).stack.blocks) > tensors:
            raise BadInput(f"{where}: {blocks} layers are said to be in {tensors} tensors")


def check_tokenizer(
    tokenizer: Reading | None, labels: LabelSet | None, facts: ModelFacts, where: Path | str
) -> None:
    """A model must know all ids and labels, and pool where the summary token of a row stands."""
    try:
        if tokenizer is not None:
            tokenizer.check(facts.sizes, facts.summaries)
        if labels is not None:
            labels.check(facts.sizes)
    except BadInput as error:
        raise BadInput(f"{where}: {error}") from None
