"""Sentence-order prediction (Lan et al., 2019, section 3.1).

A row holds two consecutive passages of one document; in half of the rows they are swapped. The
model predicts which, from the pooled state of the row. Topics do not give the answer away, as they
may where the second passage comes from another document.
"""

from dataclasses import dataclass

from regard.data.pretraining.sentence_pairs import ordered_pairs
from regard.objectives.next_sentence import SentencePairConfig, SentencePairObjective


class SentenceOrderConfig(SentencePairConfig):
    """The table ``[objective.sentence-order]``."""


@dataclass(frozen=True)
class SentenceOrder(SentencePairObjective):
    """Predicts whether two consecutive passages are in order, or swapped."""

    name, config, pairs = "sentence-order", SentenceOrderConfig, ordered_pairs
