"""``model.look`` and ``model.induction``: the attention of a model, as a view for people."""

from collections.abc import Callable
from typing import Any

from regard.ground.errors import BadInput
from regard.inside.attention_view import AttentionView
from regard.inside.induction import InductionScores
from regard.inside.record import record_input
from regard.inside.view import View
from regard.inside.word_weights import WordWeights
from regard.models.facts import LabelHead, ModelFacts
from regard.models.sites import require_causal
from regard.tasks.model_runner import ModelRunner
from regard.text.ids_only import MISSING
from regard.text.inputs import check_text
from regard.text.token_labels import LabelledInput
from regard.text.tokenizers import Tokenizer

VIEWS: dict[str, type[AttentionView | WordWeights]] = {"pool": WordWeights}
"""By the name of the first site; else ``AttentionView``."""


def look(
    runner: ModelRunner,
    facts: ModelFacts,
    tokenizer: Tokenizer | None,
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
    for text in (first,) if second is None else (first, second):
        check_text(text, 1)
    if tokenizer is None:
        raise BadInput(MISSING)
    if repeat:
        require_causal(facts.attention_sites)
    if second is None:
        second = runner.default_target(first)
    rows = _read(tokenizer, first, second, repeat)
    if not subwords and not all(row.keys.words for row in rows.values()):
        raise BadInput("the text has no words: look at its subwords")
    records, outputs = record_input(runner.model, facts, rows)
    prediction = None
    if LabelHead.name in outputs.by_head:
        (prediction,) = predict([first if second is None else (first, second)])
    view = VIEWS.get(records[0].site.name, AttentionView)
    return view.of([first, *([second] if second else [])], records, subwords, prediction)


def score_induction(
    runner: ModelRunner,
    facts: ModelFacts,
    tokenizer: Tokenizer | None,
    text: str,
    *,
    repeat: bool = False,
) -> InductionScores:
    """Run a causal model on a text, or on its tokens twice: the induction score of each head."""
    if tokenizer is None:
        raise BadInput(MISSING)
    site = require_causal(facts.attention_sites)
    rows = _read(tokenizer, check_text(text, 1), None, repeat)
    records, _ = record_input(runner.model, facts, rows)
    (layers,) = (record.layers for record in records if record.site == site)
    return InductionScores.of(text, rows[site.side].row.tokens, layers)


def _read(tokenizer: Tokenizer, first: str, second: str | None, repeat: bool) -> LabelledInput:
    """One text or two as rows with labels, or all their tokens twice."""
    rows = tokenizer.label(first, second)
    if not all(len(row.row.tokens) for row in rows.values()):
        raise BadInput("the text has no tokens: there is no attention to show")
    return {side: row.repeated() if repeat else row for side, row in rows.items()}
