"""Pairs of texts judged by a head of pre-training: does the second text follow the first?"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from regard.ground.checks import listed
from regard.ground.errors import BadItem
from regard.models.label_heads import SentencePairHead
from regard.tasks.inference.classifier import Classifier
from regard.tasks.runners.batch_runner import TextOrPair
from regard.text.labels import SingleLabelSet
from regard.text.tokenizers.row_tokenizer import RowTokenizer
from regard.text.words import one_or_two_texts


@dataclass(frozen=True, eq=False)
class SentencePairClassifier(Classifier):
    """A model pre-trained by next-sentence or sentence-order prediction."""

    head: ClassVar = SentencePairHead

    @classmethod
    def of(
        cls, head: SentencePairHead, model: Any, tokenizer: RowTokenizer, **limits: Any
    ) -> "SentencePairClassifier":
        """With the classes of the head as labels."""
        return cls(model, tokenizer, SingleLabelSet(head.classes), **limits)

    def logits(self, inputs: Sequence[TextOrPair]) -> list[Tensor]:
        given = listed(inputs)
        for number, one in enumerate(given, start=1):
            if len(one_or_two_texts(one, number)) == 1:
                raise BadItem(number, "one text; give two, of which one may follow the other")
        return super().logits(given)
