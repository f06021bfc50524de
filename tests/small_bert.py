"""Small random encoders with a vocabulary, one for each thing they can be tuned for."""

from functools import cache

import torch

from regard.api import Model
from regard.models.facts import Head, change
from regard.models.papers import bert
from regard.models.stored import Stored
from regard.text.encoder_tokenizer import EncoderTokenizer, train_wordpiece
from regard.text.labels import MultiLabelSet, RegressionSet, SingleLabelSet

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
    "several": MultiLabelSet(("sad", "wet", "old")),
    "number": RegressionSet(("likeness",)),
    "tags": SingleLabelSet(TAGS),
    "parts": SingleLabelSet(("NOUN", "VERB", "X")),
    "numbers": RegressionSet(("height",)),
}
TASKS = dict.fromkeys(("one", "several", "number"), "classify") | dict.fromkeys(
    ("tags", "parts", "numbers"), "tag"
)


@cache
def vocabulary() -> EncoderTokenizer:
    return train_wordpiece(SENTENCES, 100, longest=LONGEST)


def small_bert(kind: str = "states", seed: int = 0) -> Stored:
    """``kind``: one of ``LABELS``, "answer", "choose", "words" or "states"."""
    head = None
    if kind in LABELS:
        head = Head(TASKS[kind], len(LABELS[kind]))
    elif kind in ("answer", "choose"):
        head = Head(kind, 2 if kind == "answer" else 1, dropout=0.0 if kind == "answer" else 0.1)
    facts = change(
        bert.TINY,
        vocab=len(vocabulary().words),
        width=16,
        inner=24,
        longest=LONGEST,
        spread=0.5,
        pooled=kind not in ("tags", "parts", "numbers", "answer", "words"),
        fills=kind == "words",
        head=head,
    )
    torch.manual_seed(seed)
    return Stored(bert.PAPER, facts, build(facts).eval(), vocabulary(), LABELS.get(kind))


def model(kind: str, seed: int = 0) -> Model:
    return Model(small_bert(kind, seed))
