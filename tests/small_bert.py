"""Small random encoders with a vocabulary, one for each thing they can be tuned for."""

from functools import cache

import torch

from regard.api import Model
from regard.models.facts import change
from regard.models.folders.loaded_model import LoadedModel
from regard.models.label_heads import (
    ChoiceHead,
    LabelHead,
    MLMHead,
    SentencePairHead,
    SpanHead,
    TokenLabelHead,
)
from regard.models.papers import bert
from regard.models.pools import FirstToken
from regard.text.label_sets import MultiLabelSet, RegressionSet, SingleLabelSet
from regard.text.tokenizers.encoder_tokenizer import EncoderTokenizer, train_encoder_tokenizer

SENTENCES = (
    "The old sailor mended his nets before the storm came in.",
    "Nobody believed that the lighthouse keeper had a cat which could read.",
    "She counted twelve gulls, three boats and one very small whale.",
    "Singing sailors sing; the storm is storming, and readers are reading.",
    "Ada Lovelace met Charles Babbage in London.",
)
LONGEST = 48
TAGS = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
LABELS = {
    "one": SingleLabelSet(("bad", "fair", "good")),
    "pair": SingleLabelSet(("no", "yes")),
    "several": MultiLabelSet(("sad", "wet", "old")),
    "number": RegressionSet(("likeness",)),
    "tags": SingleLabelSet(TAGS),
    "parts": SingleLabelSet(("NOUN", "VERB", "X")),
    "numbers": RegressionSet(("height",)),
}
HEADS = {
    **{
        kind: LabelHead(len(LABELS[kind]), dropout=0.1)
        for kind in ("one", "pair", "several", "number")
    },
    **{
        kind: TokenLabelHead(len(LABELS[kind]), dropout=0.1)
        for kind in ("tags", "parts", "numbers")
    },
    "answer": SpanHead(),
    "choose": ChoiceHead(dropout=0.1),
    "pairs": SentencePairHead(),
    "words": MLMHead(),
}


@cache
def vocabulary() -> EncoderTokenizer:
    return train_encoder_tokenizer(SENTENCES, "wordpiece", 100, longest=LONGEST)


def small_bert(kind: str = "states", seed: int = 0, depth: int = 2) -> LoadedModel:
    """``kind``: one of ``LABELS``, "answer", "choose", "words" or "states"."""
    heads = (HEADS[kind],) if kind in HEADS else ()
    facts = change(
        bert.TINY,
        vocab=len(vocabulary().words),
        width=16,
        depth=depth,
        inner=24,
        longest=LONGEST,
        init_std=0.5,
        pool=FirstToken() if all(head.per_row for head in heads) else None,
        output_heads=heads,
    )
    torch.manual_seed(seed)
    return LoadedModel(bert.PAPER, facts, facts.build().eval(), vocabulary(), LABELS.get(kind))


def model(kind: str, seed: int = 0, depth: int = 2) -> Model:
    return Model(small_bert(kind, seed, depth))
