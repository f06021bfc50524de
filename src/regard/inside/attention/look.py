"""``model.look`` and ``model.induction``: views of the attention of a model."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from regard.core.errors import BadInput
from regard.inference.classifier import TextPrediction
from regard.inference.model_runner import ModelRunner
from regard.inference.resolver import Resolver
from regard.inside.attention.attention_map import AttentionMap
from regard.inside.attention.attention_view import AttentionView, View
from regard.inside.attention.image_attention import ImageAttention
from regard.inside.attention.induction import InductionScores
from regard.inside.attention.word_weights import WordWeights
from regard.inside.record import BACK, record
from regard.models.attention_site import require_causal
from regard.models.label_heads import LabelHead, SpanHead
from regard.models.trunk_with_heads import Outputs
from regard.tasks.question_answering import AnswerPrediction
from regard.text.words import check_text

Predict = Callable[[list[object]], Sequence[TextPrediction | AnswerPrediction]]

NO_SECOND_TEXT = "no second text (target): each word attends to the words of its own text"
VIEWS: dict[str, type[AttentionView | WordWeights]] = {"pool": WordWeights}
"""Views by the name of the first site; by default ``AttentionView``."""


def look(
    model: ModelRunner,
    predict: Predict,
    first: Any,
    second: str | None = None,
    *,
    subwords: bool = False,
    repeat: bool = False,
    rollout: bool = False,
    patch: tuple[int, int] | None = None,
) -> View:
    """Make a view of the attention of a model on one text or two, or an image, with its prediction.

    With ``repeat`` a causal model reads all tokens twice; ``rollout`` follows attention through all
    layers; ``patch`` is the patch of an image whose attention is shown.
    """
    sites = model.sites
    if model.reads_images:
        _refuse("an image", target=second, subwords=subwords, repeat=repeat)
        recorded, outputs = record(model, model.read(first))
        title = Path(first).name if isinstance(first, str | Path) else "image"
        prediction = _predicted(outputs, predict, first)
        view = ImageAttention.of_image(title, recorded, prediction).from_query(patch)
        return view.choose(view.maps[-1].name) if rollout else view
    _refuse("a text", patch=patch)
    if repeat:
        require_causal(sites)
    if second is not None and not check_text(second, 1).strip():
        raise BadInput("the second text (target) is empty; leave it out, or give its words")
    if second is None:
        second = model.default_target(check_text(first, 1))
    alone = second is None and any(site.between_texts for site in sites)
    if alone and SpanHead.name in model.facts.head_names:
        raise BadInput("this model reads a question and a context: give the context as the target")
    rows = model.read(first, second, repeat=repeat)
    if not subwords and not all(row.keys.words for row in rows.values()):
        raise BadInput("the text has no words: look at its subwords")
    recorded, outputs = record(model, rows)
    records = recorded.by_site
    if rollout:
        records = [each._replace(rollout=True) for each in records if each.site.within]
        if not records:
            raise BadInput("rollout: this model has no self-attention")
    texts = [first, *([second] if second else [])]
    if alone:
        texts.append(NO_SECOND_TEXT)
    prediction = _predicted(outputs, predict, first if second is None else (first, second))
    site = records[0].site
    if SpanHead.name not in outputs.by_head:
        return VIEWS.get(site.name, AttentionView).of(texts, records, subwords, prediction)
    shown = AttentionView.of(texts, records, subwords, prediction)
    if second is not None:
        shown = replace(shown, answer=cast(AnswerPrediction, predict([(first, second)])[0]))
    return shown.choose(f"{site.name}{BACK}") if site.between_texts else shown


def look_at_mentions(resolver: Resolver, given: object, **options: object) -> AttentionView:
    """Make a view of the head word of each mention of a text: the attention of a coreference head.

    Rows are the mentions of clusters, with the numbers of these; columns are the words.
    """
    _refuse("a coreference model without self-attention", **options)
    text = check_text(given, 1)
    resolved, weights_LS = resolver.head_words(text)
    if not len(weights_LS):
        raise BadInput("no mention is in a cluster: there is no attention to show")
    words = tuple(word for sentence in resolved.sentences for word in sentence)
    mentions = tuple(f"{mention.text} ({number})" for number, mention in resolved.mentions)
    return AttentionView(
        text, (AttentionMap("head-word", mentions, words, (weights_LS[None],)),), resolved.line
    )


def _refuse(what: str, **options: object) -> None:
    for name, value in options.items():
        if value not in (None, False):
            raise BadInput(f"{name} cannot be used with {what}")


def _predicted(outputs: Outputs, predict: Predict, inputs: object) -> TextPrediction | None:
    """Prediction of a classifier; None for other models."""
    if LabelHead.name not in outputs.by_head:
        return None
    return cast(TextPrediction, predict([inputs])[0])


def score_induction(model: ModelRunner, text: str, *, repeat: bool) -> InductionScores:
    """Induction score of each head of a causal model on a text, or on its tokens twice."""
    site = require_causal(model.facts.attention_sites)
    rows = model.read(text, repeat=repeat)
    recorded, _ = record(model, rows)
    layers = recorded.attention(site.name).layers
    return InductionScores.of(text, rows[site.side].row.tokens, layers)
