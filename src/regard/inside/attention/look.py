"""``model.look`` and ``model.induction``: views of the attention of a model."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from regard.ground.errors import BadInput
from regard.inference.classifier import TextPrediction
from regard.inference.model_runner import ModelRunner
from regard.inside.attention.attention_view import AttentionView, View
from regard.inside.attention.image_attention import ImageAttention
from regard.inside.attention.induction import InductionScores
from regard.inside.attention.record import record_input
from regard.inside.attention.word_weights import WordWeights
from regard.models.attention_site import require_causal
from regard.models.encoder_decoder import ModelFacts
from regard.models.label_heads import LabelHead
from regard.models.trunk_with_heads import Outputs
from regard.text.segmentation import LabelledInput
from regard.text.tokenizers.list import Tokenizer
from regard.text.tokenizers.row_tokenizer import require_tokenizer
from regard.text.words import check_text

Predict = Callable[[list[object]], Sequence[TextPrediction]]

VIEWS: dict[str, type[AttentionView | WordWeights]] = {"pool": WordWeights}
"""Views by the name of the first site; by default ``AttentionView``."""


def look(
    runner: ModelRunner,
    facts: ModelFacts,
    tokenizer: Tokenizer | None,
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
    if facts.encoder.embed.reads_images:
        _refuse("an image", target=second, subwords=subwords, repeat=repeat)
        image = runner.label(first)
        records, outputs = record_input(runner.model, facts, {"trunk": image})
        title = Path(first).name if isinstance(first, str | Path) else "image"
        prediction = _predicted(outputs, predict, first)
        view = ImageAttention.of_image(title, image, records, prediction).from_query(patch)
        return view.choose(view.maps[-1].name) if rollout else view
    _refuse("a text", patch=patch)
    tokenizer = require_tokenizer(tokenizer)
    for text in (first,) if second is None else (first, second):
        check_text(text, 1)
    if repeat:
        require_causal(facts.attention_sites)
    if second is None:
        second = runner.default_target(first)
    rows = _read(tokenizer, first, second, repeat)
    if not subwords and not all(row.keys.words for row in rows.values()):
        raise BadInput("the text has no words: look at its subwords")
    records, outputs = record_input(runner.model, facts, rows)
    if rollout:
        records = [record._replace(rollout=True) for record in records if record.site.within]
        if not records:
            raise BadInput("rollout: this model has no self-attention")
    prediction = _predicted(outputs, predict, first if second is None else (first, second))
    texts = [first, *([second] if second else [])]
    view_class = VIEWS.get(records[0].site.name, AttentionView)
    return view_class.of(texts, records, subwords, prediction)


def _refuse(what: str, **options: object) -> None:
    for name, value in options.items():
        if value not in (None, False):
            raise BadInput(f"{name} cannot be used with {what}")


def _predicted(outputs: Outputs, predict: Predict, inputs: object) -> TextPrediction | None:
    """Prediction of a classifier; None for other models."""
    return predict([inputs])[0] if LabelHead.name in outputs.by_head else None


def score_induction(
    runner: ModelRunner, facts: ModelFacts, tokenizer: Tokenizer | None, text: str, *, repeat: bool
) -> InductionScores:
    """Induction score of each head of a causal model on a text, or on its tokens twice."""
    tokenizer, site = require_tokenizer(tokenizer), require_causal(facts.attention_sites)
    rows = _read(tokenizer, check_text(text, 1), None, repeat)
    records, _ = record_input(runner.model, facts, rows)
    (layers,) = (record.layers for record in records if record.site == site)
    return InductionScores.of(text, rows[site.side].row.tokens, layers)


def _read(tokenizer: Tokenizer, first: str, second: str | None, repeat: bool) -> LabelledInput:
    """Tokenise one text or two, as rows with labels; with ``repeat`` all tokens twice."""
    rows = tokenizer.label(first, second)
    if not all(len(row.row.tokens) for row in rows.values()):
        raise BadInput("the text has no tokens: there is no attention to show")
    return {side: row.repeated() if repeat else row for side, row in rows.items()}
