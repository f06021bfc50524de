"""``model.look``: the attention of a model on one text or two, as a view for people."""

from collections.abc import Callable
from typing import Any

from torch import nn

from regard.inside.attention_view import AttentionView
from regard.inside.record import record_input
from regard.inside.view import View
from regard.inside.word_weights import WordWeights
from regard.models.facts import LabelHead, ModelFacts
from regard.text.tokenizers import Tokenizer

VIEWS: dict[str, type[AttentionView | WordWeights]] = {"pool": WordWeights}
"""By the name of the first site; else ``AttentionView``."""


def look(
    module: nn.Module,
    facts: ModelFacts,
    tokenizer: Tokenizer,
    predict: Callable[[list[Any]], list[Any]],
    first: str,
    second: str | None = None,
    *,
    subwords: bool = False,
) -> View:
    """Run a model on one text or two: its attention, and for a classifier what it predicts."""
    records, outputs = record_input(module, facts, tokenizer.label(first, second))
    prediction = None
    if LabelHead.name in outputs.by_head:
        (prediction,) = predict([first if second is None else (first, second)])
    view = VIEWS.get(records[0].site.name, AttentionView)
    return view.of([first, *([second] if second else [])], records, subwords, prediction)
