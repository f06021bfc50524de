"""The self-attention of an encoder on one text or a pair of texts, recorded by a tape."""

from collections.abc import Sequence

import torch

from regard.ground.batch import pack_texts
from regard.ground.tape import Tape
from regard.inside.attention_map import AttentionMap
from regard.inside.attention_view import AttentionView
from regard.tasks.classify import TextPrediction
from regard.tasks.encoder_model import EncoderModel
from regard.text.offsets import Segmentation, units

WEIGHTS = "trunk.blocks.*.attention.weights"


def look_encoder(
    encoder: EncoderModel, first: str, second: str | None = None, *, subwords: bool = False
) -> AttentionView:
    """The attention of every layer and head, and the prediction of a classifier."""
    texts = [first] if second is None else [first, second]
    cuts = [encoder.text.words.segment(text) for text in texts]
    a, b = cuts[0].ids, None if second is None else cuts[1].ids
    (row,) = encoder.read([encoder.text.row(a, b)])
    batch, tape = pack_texts([row]).to(encoder.device), Tape(WEIGHTS)
    with torch.inference_mode():
        encoder.model.encode(batch, tape=tape)
    pieces = tuple(encoder.text.words.pieces([int(token) for token in row.tokens]))
    layers = (weights_BHLS[0].float().cpu().numpy() for weights_BHLS in tape.kept.values())
    attention = AttentionMap("encoder", pieces, pieces, tuple(layers))
    if not subwords:
        words, groups = _words(texts, cuts, pieces)
        attention = attention.merged(words, words, groups, groups)
    return AttentionView(first, (attention,), second or "", _predict(encoder, texts))


def _predict(encoder: EncoderModel, texts: Sequence[str]) -> TextPrediction | None:
    """The prediction of a classifier; None for another encoder."""
    if encoder.facts.head("label") is None:
        return None
    return encoder.predictor.predict([texts[0] if len(texts) == 1 else (texts[0], texts[1])])[0]


def _words(
    texts: Sequence[str], cuts: Sequence[Segmentation], pieces: Sequence[str]
) -> tuple[list[str], list[list[int]]]:
    """The words of a row and the tokens of each; every special token counts as a word."""
    words, groups = [pieces[0]], [[0]]
    for text, cut in zip(texts, cuts, strict=True):
        start = groups[-1][-1] + 1
        separator = start + len(cut.ids)
        named, tokens = units(text, cut)
        words += [*named, pieces[separator]]
        groups += [*([start + token for token in group] for group in tokens), [separator]]
    return words, groups
