"""What an encoder looks at while it reads a text or two, recorded by the tape."""

from collections.abc import Sequence

import torch

from regard.ground.batch import pack_texts
from regard.ground.tape import Tape
from regard.inside.look import Look
from regard.inside.maps import Map
from regard.tasks.classify import EncoderClassifier, Judgement
from regard.tasks.understand import Understanding
from regard.text.offsets import Segmentation, units

WEIGHTS = "trunk.blocks.*.attention.weights"


def look_within(
    encoder: Understanding, first: str, second: str | None = None, *, subwords: bool = False
) -> Look:
    """Every layer and head, over one text or two as the encoder reads them; its prediction."""
    texts = [first] if second is None else [first, second]
    cuts = [encoder.text.words.segment(text) for text in texts]
    a, b = cuts[0].ids, None if second is None else cuts[1].ids
    (row,) = encoder.read([encoder.text.row(a, b)])
    read, tape = pack_texts([row]).to(encoder.device), Tape(WEIGHTS)
    with torch.inference_mode():
        encoder.model.encode(read.tokens_T, read.layout, tape=tape)
    pieces = tuple(encoder.text.words.pieces([int(token) for token in row.tokens]))
    layers = (weights_BHLS[0].float().cpu().numpy() for weights_BHLS in tape.kept.values())
    found = Map("encoder", pieces, pieces, tuple(layers))
    if not subwords:
        words, groups = _words(texts, cuts, pieces)
        found = found.merged(words, words, groups, groups)
    return Look(first, (found,), second or "", _prediction(encoder, texts))


def _prediction(encoder: Understanding, texts: Sequence[str]) -> Judgement | None:
    """What a classifier says of the texts; None of another encoder."""
    head = encoder.facts.head
    if head is None or head.task != "classify":
        return None
    predictor = encoder.predictor
    assert isinstance(predictor, EncoderClassifier)
    return predictor.predict([texts[0] if len(texts) == 1 else (texts[0], texts[1])])[0]


def _words(
    texts: Sequence[str], cuts: Sequence[Segmentation], pieces: Sequence[str]
) -> tuple[list[str], list[list[int]]]:
    """The words of a row with the tokens of each; marks around the texts are words of their own."""
    words, groups = [pieces[0]], [[0]]
    for text, cut in zip(texts, cuts, strict=True):
        start = groups[-1][-1] + 1
        mark = start + len(cut.ids)
        named, tokens = units(text, cut)
        words += [*named, pieces[mark]]
        groups += [*([start + token for token in group] for group in tokens), [mark]]
    return words, groups
