"""``model.look`` and ``model.induction``: the attention of a model, as a view for people."""

from collections.abc import Callable
from typing import Any

from torch import nn

from regard.inside.attention_view import AttentionView
from regard.inside.induction import InductionScores
from regard.inside.record import record_input
from regard.inside.view import View
from regard.inside.word_weights import WordWeights
from regard.models.facts import LabelHead, ModelFacts
from regard.models.sites import require_causal
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
    repeat: bool = False,
) -> View:
    """Run a model on one text or two: its attention, and for a classifier what it predicts.

    With ``repeat``, a causal model reads all tokens twice.
    """
    rows = tokenizer.label(first, second)
    if repeat:
        require_causal(facts.attention_sites)
        rows = {side: row.repeated() for side, row in rows.items()}
    records, outputs = record_input(module, facts, rows)
    prediction = None
    if LabelHead.name in outputs.by_head:
        (prediction,) = predict([first if second is None else (first, second)])
    view = VIEWS.get(records[0].site.name, AttentionView)
    return view.of([first, *([second] if second else [])], records, subwords, prediction)


def score_induction(
    module: nn.Module, facts: ModelFacts, tokenizer: Tokenizer, text: str, *, repeat: bool = False
) -> InductionScores:
    """Run a causal model on a text, or on its tokens twice: the induction score of each head."""
    site = require_causal(facts.attention_sites)
    row = tokenizer.label(text)[site.side]
    rows = {site.side: row.repeated() if repeat else row}
    records, _ = record_input(module, facts, rows)
    (layers,) = (record.layers for record in records if record.site == site)
    return InductionScores.of(text, rows[site.side].row.tokens, layers)
