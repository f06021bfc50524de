"""A loaded model with all contents of its folder, of any format."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.core.device import uninitialised
from regard.core.errors import BadInput, reason_of
from regard.core.reading import Reading
from regard.models.encoder_decoder import ModelFacts
from regard.models.formats.hf_format import HFExtras
from regard.models.paper import Paper
from regard.text.label_sets import LabelSet

CONFIG, WEIGHTS = "config.json", "model.safetensors"
ELMO_OPTIONS, ELMO_WEIGHTS = "options.json", "weights.hdf5"  # published names have more before them
ONNX_GRAPHS = "onnx"  # the folder of the graphs
SCORES = re.compile(r"\.(qkv|q|kv)\.\w+$|\bscore\.")  # weights that attention scores depend on


@dataclass(frozen=True, eq=False)
class LoadedModel:
    """A model in memory, with paper, facts, tokenizer and labels.

    ``notes`` are JSON values of any kind: training cost, decoding and alignment settings.
    ``extras`` is the rest of a Hugging Face folder, so that it can be written again.
    """

    paper: Paper
    facts: ModelFacts
    module: nn.Module
    tokenizer: Reading | None = None
    labels: LabelSet | None = None
    notes: dict[str, Any] = field(default_factory=dict)
    extras: HFExtras | None = None


def build_facts(facts: ModelFacts, device: torch.device | str, where: str) -> nn.Module:
    """Build the module of facts that were read from a file; its weights are loaded next."""
    try:
        with uninitialised(device):
            return facts.build()
    except (TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise BadInput(
            f"{where}: no model can be built from its facts ({reason_of(error)})"
        ) from None


def check_depth(facts: ModelFacts, tensors: int, where: str) -> None:
    """Raise BadInput if a stack has more layers than the file has tensors, before it is built."""
    for side in facts.sides:
        if (blocks := getattr(facts, side).stack.blocks) > tensors:
            raise BadInput(f"{where}: {blocks} layers, but the file has only {tensors} tensors")


def check_scores(model: nn.Module, where: Path) -> None:
    """Raise BadInput for weights of attention scores that are NaN or infinite.

    torch's attention on a CPU gives zeros for scores that are NaN; other weights show in outputs.
    """
    for name, tensor in model.named_parameters():
        if SCORES.search(name) and not tensor.sum().isfinite() and not tensor.isfinite().all():
            raise BadInput(f"{where}: the weight {name} is NaN or infinite; copy the folder again")


def check_tokenizer(
    tokenizer: Reading | None, labels: LabelSet | None, facts: ModelFacts, where: Path | str
) -> None:
    """Raise BadInput if tokenizer or labels do not fit the sizes and the pool of a model."""
    try:
        if tokenizer is not None:
            tokenizer.check(facts.sizes, facts.summaries)
        if labels is not None:
            labels.check(facts.sizes)
    except BadInput as error:
        raise BadInput(f"{where}: {error}") from None
