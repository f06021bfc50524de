"""Tags of words: sentences in, a tag for each word out, and the entities that tags mean."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice
from math import nan

import numpy as np
import torch
from torch import Tensor, nn

from regard.ground.errors import BadInput
from regard.metrics.entities import OUTSIDE, spans
from regard.tasks.inputs import check_text, listed
from regard.tasks.rows import Runner
from regard.text.encoder_tokenizer import EncoderTokenizer
from regard.text.labels import LabelSet, RegressionSet, SingleLabelSet
from regard.text.words import Span, Spans, word_spans

Sentence = str | Sequence[str]  # a text, or the words of one


@dataclass(frozen=True)
class Word:
    """A word, its characters in the text, and its tag; or its ``value``, if it has a number."""

    text: str
    start: int
    end: int
    tag: str | None
    probability: float | None
    value: float | None = None

    @property
    def answer(self) -> str | float:
        """What is compared with the tag, or the number, that is right."""
        return (self.tag or OUTSIDE) if self.value is None else self.value


@dataclass(frozen=True)
class Entity:
    """Characters ``start`` to ``end`` (not included) of a text, and what they are.

    Its probability is the mean of those of its words' tags.
    """

    label: str
    start: int
    end: int
    text: str
    probability: float


@dataclass(frozen=True)
class Tagging:
    """A text with its words. Of a sentence given as words, the text is these, a space between."""

    text: str
    words: tuple[Word, ...]

    @property
    def tags(self) -> list[str]:
        """The tag of each word."""
        return [word.tag or OUTSIDE for word in self.words]

    @property
    def entities(self) -> list[Entity]:
        """What the tags mean, if they are such as B-PER."""
        return [self._entity(label, self.words[i:j]) for i, j, label in spans(self.tags)]

    def _entity(self, label: str, words: tuple[Word, ...]) -> Entity:
        start, end = words[0].start, words[-1].end
        probable = float(np.mean([word.probability or 0.0 for word in words]))
        return Entity(label, start, end, self.text[start:end], probable)


@dataclass(frozen=True, eq=False)
class Tagger(Runner):
    """An encoder that says something of each word, by its first piece.

    A sentence of more than ``longest`` tokens is read in several rows. ``spans`` finds the words of
    a text.
    """

    model: nn.Module
    tokenizer: EncoderTokenizer
    labels: LabelSet
    rows: int = 256
    longest: int = 512
    spans: Spans = word_spans

    def __post_init__(self) -> None:
        if self.labels.problem_type not in OF_WORDS:
            kind = self.labels.kind
            raise BadInput(f"a word has one tag: labels of the kind {kind!r} are no tags")

    @property
    def finds_entities(self) -> bool:
        """Whether its tags mean entities, as B-PER does and NOUN does not."""
        try:
            spans(self.labels.classes)
        except BadInput:
            return False
        return bool(self.labels.classes)

    def predict(self, asked: Sequence[Sentence]) -> list[Tagging]:
        """The words of each text or sentence with their tags, or with numbers."""
        asked = [_sentence(one, number) for number, one in enumerate(listed(asked), start=1)]
        texts = [one if isinstance(one, str) else " ".join(one) for one in asked]
        places = [self.spans(one) if isinstance(one, str) else _places(one) for one in asked]
        sentences = [
            [text[start:end] for start, end in found]
            for text, found in zip(texts, places, strict=True)
        ]
        found = zip(texts, places, self.logits(sentences), strict=True)
        return [Tagging(text, self._words(text, at, said_NV)) for text, at, said_NV in found]

    def logits(self, sentences: Sequence[Sequence[str]]) -> list[Tensor]:
        """(words, labels) for each sentence."""
        ids = iter(self.tokenizer.pieces([w for words in sentences for w in words]))
        template = self.tokenizer.template
        windows = [
            (number, window)
            for number, words in enumerate(sentences)
            for window in template.windows_of_words([*islice(ids, len(words))], self.longest)
        ]
        size = len(self.labels)
        found = [torch.full((len(words), size), nan, dtype=torch.float64) for words in sentences]
        of_windows = self.of_tokens([window.row for _, window in windows], "token_label")
        for (number, window), logits_LV in zip(windows, of_windows, strict=True):
            firsts = torch.tensor(window.firsts, dtype=torch.int64)
            found[number][firsts >= 0] = logits_LV[firsts[firsts >= 0]]
        return found

    def _words(self, text: str, places: Sequence[Span], logits_NV: Tensor) -> tuple[Word, ...]:
        """All that is said of the words of one text."""
        said = OF_WORDS[self.labels.problem_type](logits_NV, self.labels.names)
        found = zip(places, said, strict=True)
        return tuple(Word(text[start:end], start, end, *of) for (start, end), of in found)


Said = tuple[str | None, float | None, float | None]  # a tag and its probability, or a value


def _tags(logits_NV: Tensor, names: Sequence[str]) -> list[Said]:
    probable_N, best_N = torch.softmax(logits_NV, dim=-1).max(dim=-1)
    found = zip(probable_N.tolist(), best_N.tolist(), strict=True)
    return [(names[best], probable, None) for probable, best in found]


def _values(logits_NV: Tensor, names: Sequence[str]) -> list[Said]:
    return [(None, None, value) for value in logits_NV[:, 0].tolist()]


OF_WORDS: dict[str, Callable[[Tensor, Sequence[str]], list[Said]]] = {
    SingleLabelSet.problem_type: _tags,
    RegressionSet.problem_type: _values,
}
"""What the logits of a model mean for words, by its labels."""


def _sentence(one: Sentence, number: int) -> Sentence:
    """A text or its words, checked."""
    if not isinstance(one, tuple | list):
        return check_text(one, number, "neither a text nor a list of words")
    return [check_text(word, number) for word in one]


def _places(words: Sequence[str]) -> list[Span]:
    """Where words are, a space between any two."""
    starts = accumulate((len(word) + 1 for word in words), initial=0)
    return [Span(start, start + len(word)) for word, start in zip(words, starts, strict=False)]
