"""A small random LSTM language model, without a tokenizer."""

from functools import cache

import torch

from regard.api import Model
from regard.inference.model_runner import ModelRunner
from regard.models.facts import change
from regard.models.folders.loaded_model import LoadedModel
from regard.models.heads import NextTokenHead
from regard.models.papers import zaremba


@cache
def small_lstm() -> ModelRunner:
    """An LSTM of two layers."""
    facts = next(iter(zaremba.PAPER.sizes.values()))
    facts = change(
        facts, width=12, embedding=12, depth=2, vocab=23, output_heads=(NextTokenHead(),)
    )
    torch.manual_seed(0)
    return Model(LoadedModel(zaremba.PAPER, facts, facts.build().eval(), None)).inspected
