"""Tags (or numbers) of words, and the entities that tags mark, with a model that labels tokens."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import chain, islice
from math import nan
from typing import ClassVar, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from regard.core.batch import BatchLimits
from regard.core.errors import BadInput
from regard.core.tape import NULL_TAPE, NullTape
from regard.data.batches.packing import inference_batches
from regard.data.readers.fields import filled, typed
from regard.inference.component import Result, Row
from regard.inference.predictor import Predictor
from regard.inference.row_batches import T, in_order
from regard.layers.crf import best_sequences
from regard.metrics.entities import OUTSIDE
from regard.metrics.entities import spans as entity_spans
from regard.models.label_heads import TokenLabelHead, TransitionHead
from regard.text.label_sets import LabelSet
from regard.text.templates import WordRow
from regard.text.tokenizers.row_tokenizer import RowTokenizer
from regard.text.words import (
    Sentence,
    Span,
    Spans,
    check_text,
    joined,
    joined_spans,
    spaced_spans,
    word_spans,
)


@dataclass(frozen=True)
class TaggedWord:
    """A word, its characters [start, end) in the text, and its tag or its number ``value``."""

    text: str
    start: int
    end: int
    tag: str | None = None
    probability: float | None = None
    value: float | None = None

    @property
    def prediction(self) -> str | float:
        """The tag or number, to compare with the gold one."""
        return self.tag if self.tag is not None else self.value or 0.0

    @property
    def label(self) -> str:
        """The tag or number, as text."""
        return (self.tag or OUTSIDE) if self.value is None else f"{self.value:.4f}"


@dataclass(frozen=True)
class Entity:
    """An entity: its type, its characters [start, end), and the mean probability of its tags."""

    label: str
    start: int
    end: int
    text: str
    probability: float


@dataclass(frozen=True)
class TaggedText:
    """A text and its tagged words; words that were given as a list are joined by spaces."""

    text: str
    words: tuple[TaggedWord, ...]

    @property
    def tags(self) -> list[str]:
        """The tag of each word."""
        return [word.tag or OUTSIDE for word in self.words]

    @property
    def entities(self) -> list[Entity]:
        """The entities that tags such as B-PER and I-PER mark."""
        return [self._entity(label, self.words[i:j]) for i, j, label in entity_spans(self.tags)]

    def _entity(self, label: str, words: tuple[TaggedWord, ...]) -> Entity:
        start, end = words[0].start, words[-1].end
        probability = float(np.mean([word.probability or 0.0 for word in words]))
        return Entity(label, start, end, self.text[start:end], probability)


class TaggerRows(NamedTuple):
    """A text, the spans of its words, and the rows (windows) that hold them."""

    text: str
    spans: Sequence[Span]
    windows: list[WordRow]


TaggerRow = Row[Sentence, TaggerRows]
WordValue = tuple[str | None, float | None, float | None]  # tag, probability, number


@dataclass(frozen=True, eq=False)
class Tagger(Predictor[Sentence, TaggerRows, TaggedText]):
    """The component "tag" of a model with a token-label head.

    ``find_words`` divides a text into words. A sentence of more than ``max_length`` tokens is read
    in overlapping windows.
    """

    name = "tag"
    empty_record: ClassVar = {"words": None}
    record_keys = (("text",),)
    words_key = "text"
    labels: LabelSet
    max_length: int = 512
    find_words: Spans = field(default=word_spans)
    prints_entities: bool = False

    def __post_init__(self) -> None:
        if self.labels.classes and not self.labels.single_label:
            raise BadInput("a word has one tag: multi-label models cannot tag words")

    @property
    def finds_entities(self) -> bool:
        """Whether tags mark entities (B-PER does, NOUN does not)."""
        try:
            entity_spans(self.labels.classes)
        except BadInput:
            return False
        return bool(self.labels.classes)

    def rows(self, inputs: Sequence[Sentence], keys: Sequence[int]) -> list[TaggerRow]:
        numbered = enumerate(inputs, start=1)
        find = self.find_words
        texts = [text_and_spans(sentence, number, find) for number, sentence in numbered]
        sentences = [[text[start:end] for start, end in spans] for text, spans in texts]
        windows: list[list[WordRow]] = [[] for _ in inputs]
        for number, window in word_windows(self.tokenizer, sentences, self.max_length):
            windows[number].append(window)
        return [
            Row(key, given, TaggerRows(*text, own), sum(len(w.row.tokens) for w in own))
            for key, given, text, own in zip(keys, inputs, texts, windows, strict=True)
        ]

    def values(self, rows: Sequence[TaggerRow], tape: NullTape = NULL_TAPE) -> list[TaggedText]:
        windows = [(number, w) for number, row in enumerate(rows) for w in row.data.windows]
        logits = self._window_logits(windows, [len(row.data.spans) for row in rows], tape)
        return [
            _tagged(row.data, values)
            for row, values in zip(rows, self._values(logits), strict=True)
        ]

    def _values(self, logits: Sequence[Tensor]) -> Iterator[Sequence[WordValue]]:
        """(tag, probability, number) of each word, for each sentence."""
        if not self.labels.classes:
            yield from ([(None, None, n) for n in of_text[:, 0].tolist()] for of_text in logits)
            return
        names = self.labels.names
        for tags, probabilities in self._best(logits):
            best = zip(tags, probabilities, strict=True)
            yield [(names[tag], probability, None) for tag, probability in best]

    def _best(self, logits: Sequence[Tensor]) -> Iterable[tuple[list[int], list[float]]]:
        """The best tags of each sentence, one by one or, with a CRF, as a sequence."""
        if TransitionHead.name not in self.module.heads:
            best = (torch.softmax(logits_NV, dim=-1).max(dim=-1) for logits_NV in logits)
            return [(tags.indices.tolist(), tags.values.tolist()) for tags in best]
        table = self.module.heads[TransitionHead.name].table.detach().cpu().double()
        return decode_sequences(logits, partial(best_sequences, table=table), self.limits)

    def logits(self, sentences: Sequence[Sequence[str]]) -> list[Tensor]:
        """Logits (words, labels) for each sentence."""
        windows = [*word_windows(self.tokenizer, sentences, self.max_length)]
        return self._window_logits(windows, [*map(len, sentences)])

    def _window_logits(
        self,
        windows: Sequence[tuple[int, WordRow]],
        words: Sequence[int],
        tape: NullTape = NULL_TAPE,
    ) -> list[Tensor]:
        """Logits (words, labels) for each sentence, from its windows and its number of words."""
        of_windows = self.head_logits(TokenLabelHead, [window.row for _, window in windows], tape)
        size = len(self.labels)
        logits = [torch.full((count, size), nan, dtype=torch.float64) for count in words]
        for (number, window), logits_LV in zip(windows, of_windows, strict=True):
            logits[number][window.words] = logits_LV[window.first_tokens]
        return logits

    def parse(self, line: str, where: str) -> str:
        return line

    def parse_record(self, record: Mapping[str, object], where: str) -> Sentence:
        words = record.get(self.words_key)
        if not isinstance(words, list):
            return super().parse_record(record, where)
        return tuple(filled(typed(word, str, "a word", where), where) for word in words)

    def row_texts(self, given: Sentence) -> Sequence[tuple[str, ...]]:
        return [(joined(given),)]

    def word_labels(self, result: Result[TaggedText]) -> Sequence[str] | None:
        return None if self.prints_entities else [word.label for word in result.value.words]

    def line(self, value: TaggedText) -> str:
        if self.prints_entities:
            flat = ((" ".join(entity.text.split()), entity.label) for entity in value.entities)
            return "\t".join(f"{text}/{label}" for text, label in flat)
        return " ".join(f"{word.text}/{word.label}" for word in value.words)

    @property
    def columns(self) -> tuple[str, ...]:
        return ("entities" if self.prints_entities else "tags",)

    def cells(self, result: Result[TaggedText]) -> list[dict[str, object]]:
        return [dict.fromkeys(self.columns, self.line(result.value))]

    def record(self, value: TaggedText) -> dict[str, object]:
        words = [
            {name: value for name, value in asdict(word).items() if value is not None}
            for word in value.words
        ]
        if not self.finds_entities:
            return {"words": words}
        return {"words": words, "entities": [asdict(entity) for entity in value.entities]}

    def with_options(self, *, pretokenised: bool = False, entities: bool = False) -> Self:
        if entities and not self.finds_entities:
            raise BadInput("entities cannot be printed: the tags of this model mark no entities")
        find_words = spaced_spans if pretokenised else self.find_words
        return replace(self, find_words=find_words, prints_entities=entities)


def _tagged(data: TaggerRows, values: Iterable[WordValue]) -> TaggedText:
    pairs = zip(data.spans, values, strict=True)
    words = ((data.text[start:end], start, end, *value) for (start, end), value in pairs)
    return TaggedText(data.text, tuple(TaggedWord(*word) for word in words))


def decode_sequences(
    logits: Sequence[Tensor], decode: Callable[[Sequence[Tensor]], list[T]], limits: BatchLimits
) -> list[T]:
    """Decode sequences of similar length together."""
    lengths = np.array([*map(len, logits)])
    return in_order(
        (numbers, decode([logits[number] for number in numbers]))
        for numbers in inference_batches(lengths, limits)
    )


def text_and_spans(
    sentence: Sentence, number: int, find_words: Spans
) -> tuple[str, Sequence[Span]]:
    """The text of input ``number``, and the spans of its words; a list of words is joined."""
    if isinstance(sentence, tuple | list):
        words = [check_text(word, number) for word in sentence]
        return " ".join(words), joined_spans(words)
    text = check_text(sentence, number, "neither a text nor a list of words")
    return text, find_words(text)


def word_windows(
    tokenizer: RowTokenizer, sentences: Sequence[Sequence[str]], longest: int
) -> Iterator[tuple[int, WordRow]]:
    """(index of the sentence, row) of all rows; a long sentence has several."""
    ids = iter(tokenizer.pieces([*chain(*sentences)]))  # of all words at once: tokenizers batch
    for number, sentence in enumerate(sentences):
        of_words = [*islice(ids, len(sentence))]
        for window in tokenizer.template.windows_of_words(of_words, longest):
            yield number, window
