"""Tagging: a tag (or a number) for each word of a sentence, and the entities that tags mark.

The order of this file: ``TagsConfig``, the table of recipes; ``TaggedText``, the result for one
sentence; ``Tagger``, which predicts with a trained model; ``Tag``, the task: labels, targets, head,
objective and scores. A word is labelled at its first token; other tokens have no target.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import accumulate, chain, islice
from math import nan
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from pydantic import model_validator
from torch import Tensor

from regard.data.packing import inference_batches
from regard.data.readers import TaggedExample
from regard.ground.batch import IGNORED, BatchLimits
from regard.ground.checks import listed
from regard.ground.config import EMPTY_IS_NONE, Config
from regard.ground.errors import BadInput
from regard.ground.layout import Layout
from regard.metrics.entities import OUTSIDE, entity_scores, entity_table, scheme_tags, to_scheme
from regard.metrics.entities import spans as entity_spans
from regard.models.facts import TokenLabelHead, TransitionHead, TrunkWithHeads
from regard.objectives.label_distillation import LabelDistillationConfig
from regard.objectives.label_sequences import LabelSequences
from regard.objectives.labels import TOKEN_OBJECTIVES
from regard.objectives.objective import Objective
from regard.parts.crf import marginals, viterbi
from regard.tasks.encoder_task import Encoded, EncoderTask
from regard.tasks.labels import SCORES, ClassWeights, class_weights
from regard.tasks.runners.batch_runner import TOKENS, Predictor, finite, in_order
from regard.tasks.task import TaskScores
from regard.text.config import EncoderTextConfig
from regard.text.inputs import check_text
from regard.text.labels import LABEL_SETS, LabelSet
from regard.text.templates import WordRow
from regard.text.tokenizers.row_tokenizer import RowTokenizer
from regard.text.words import Span, Spans, spaced_spans, word_spans

Sentence = str | Sequence[str]  # a text, or its words


class TagsConfig(Config):
    """The table ``[labels]`` of a recipe with ``task = "tag"``.

    A word has "one" tag or a "number". Tags of entities are converted to ``scheme`` ("" or none:
    as they are in the files), and the model has all its tags for the entities that occur, also
    those that the training data lacks. ``weights`` are one per tag (default 1), or "balanced": each
    tag has the same total weight.
    """

    kind: Literal["one", "number"] = "one"
    """A word has one tag, or a number."""
    names: dict[str, str] | None = None
    """Names of tags, by what files write."""
    weights: ClassWeights | None = None
    """The weight of each tag in the loss, or "balanced"."""
    crf: bool = False
    """Tags of a sentence are scored together, by a conditional random field."""
    scheme: Annotated[
        Literal["IOB1", "IOB2", "BIOES", "BILOU", ""] | None,
        EMPTY_IS_NONE,
    ] = None
    """The scheme that tags of entities are converted to."""

    @model_validator(mode="after")
    def _only_tags_have_these(self) -> "TagsConfig":
        for key in ("names", "weights", "scheme", "crf"):
            if self.kind != "one" and getattr(self, key) not in (None, False):
                raise ValueError(f"{key} cannot be used with labels of kind {self.kind!r}")
        if self.crf and self.weights is not None:
            raise ValueError("weights of single tags cannot be used with crf")
        return self


@dataclass(frozen=True)
class TaggedWord:
    """A word, its characters [start, end) in the text, and its tag; or ``value``, its number."""

    text: str
    start: int
    end: int
    tag: str | None = None
    probability: float | None = None
    value: float | None = None

    @property
    def prediction(self) -> str | float:
        """Tag or number, to be compared with the gold one."""
        return self.tag if self.tag is not None else self.value or 0.0

    @property
    def label(self) -> str:
        """Tag or number, as text."""
        return (self.tag or OUTSIDE) if self.value is None else f"{self.value:.4f}"


@dataclass(frozen=True)
class Entity:
    """Characters [start, end) of a text, and the type of the entity.

    Its probability is the mean over the tags of its words.
    """

    label: str
    start: int
    end: int
    text: str
    probability: float


@dataclass(frozen=True)
class TaggedText:
    """A text and its tagged words. A sentence that was given as words is joined by spaces."""

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


@dataclass(frozen=True, eq=False)
class Tagger(Predictor):
    """Tags words with a model that has a token-label head.

    ``find_words`` gives the words of a text. A sentence of more than ``max_length`` tokens is read
    in overlapping windows.
    """

    empty_record: ClassVar = {"words": None}
    labels: LabelSet
    max_length: int = 512
    find_words: Spans = field(default=word_spans)
    prints_entities: bool = False

    def __post_init__(self) -> None:
        if self.labels.classes and not self.labels.single_label:
            raise BadInput("a word has one tag: labels of which a text has several are no tags")

    @property
    def finds_entities(self) -> bool:
        """Whether its tags mark entities, as B-PER does and NOUN does not."""
        try:
            entity_spans(self.labels.classes)
        except BadInput:
            return False
        return bool(self.labels.classes)

    def predict(self, inputs: Sequence[Sentence]) -> list[TaggedText]:
        """The words of each sentence with their tags, or with numbers."""
        numbered = enumerate(listed(inputs), start=1)
        texts = [self._text_and_spans(sentence, number) for number, sentence in numbered]
        sentences = [[text[start:end] for start, end in spans] for text, spans in texts]
        return [
            TaggedText(text, self._tag_words(text, spans, values))
            for (text, spans), values in zip(texts, self._values(sentences), strict=True)
        ]

    def _values(self, sentences: Sequence[Sequence[str]]) -> Iterator[Iterable[dict[str, Any]]]:
        """The tag of each word with its probability, or its number, for each sentence."""
        logits = self.logits(sentences)
        if not self.labels.classes:
            yield from ([{"value": value} for value in one[:, 0].tolist()] for one in logits)
            return
        names = self.labels.names
        for tags, probabilities in self._best(logits):
            best = zip(tags, probabilities, strict=True)
            yield [{"tag": names[i], "probability": p} for i, p in best]

    def _best(self, logits: Sequence[Tensor]) -> Iterable[tuple[list[int], list[float]]]:
        """The tags of each sentence, each the most probable one or, with a CRF, all together."""
        if TransitionHead.name not in self.model.heads:
            best = (torch.softmax(logits_NV, dim=-1).max(dim=-1) for logits_NV in logits)
            return [(one.indices.tolist(), one.values.tolist()) for one in best]
        table = self.model.heads[TransitionHead.name].table.detach().cpu().double()
        lengths = np.array([*map(len, logits)])
        limits = BatchLimits(TOKENS, self.batch_size, TOKENS)
        return in_order(
            (numbers, _best_sequences([logits[number] for number in numbers], table))
            for numbers in inference_batches(lengths, limits)
        )

    def _text_and_spans(self, sentence: Any, number: int) -> tuple[str, Sequence[Span]]:
        """The text of input ``number``, and the characters of each of its words."""
        if isinstance(sentence, tuple | list):
            words = [check_text(word, number) for word in sentence]
            return " ".join(words), _spans_of_joined(words)
        text = check_text(sentence, number, "neither a text nor a list of words")
        return text, self.find_words(text)

    def logits(self, sentences: Sequence[Sequence[str]]) -> list[Tensor]:
        """(words, labels) for each sentence."""
        windows = [*_windows(self.tokenizer, sentences, self.max_length)]
        of_windows = self.logits_of(
            TokenLabelHead, [window.row for _, window in windows], convert=finite
        )
        size = len(self.labels)
        logits = [torch.full((len(words), size), nan, dtype=torch.float64) for words in sentences]
        for (number, window), logits_LV in zip(windows, of_windows, strict=True):
            logits[number][window.words] = logits_LV[window.first_tokens]
        return logits

    def _tag_words(
        self, text: str, spans: Sequence[Span], values: Iterable[dict[str, Any]]
    ) -> tuple[TaggedWord, ...]:
        return tuple(
            TaggedWord(text[start:end], start, end, **value)
            for (start, end), value in zip(spans, values, strict=True)
        )

    def is_cut(self, given: Sentence) -> bool:
        """A long sentence is read in several rows."""
        return False

    def parse(self, line: str, where: str) -> str:
        """A line of a file is one text."""
        return line

    def line(self, result: TaggedText) -> str:
        """A result as one line: word/tag for each word, or entity/label for each entity."""
        if self.prints_entities:
            flat = ((" ".join(entity.text.split()), entity.label) for entity in result.entities)
            return "\t".join(f"{text}/{label}" for text, label in flat)
        return " ".join(f"{word.text}/{word.label}" for word in result.words)

    def record(self, result: TaggedText) -> dict[str, Any]:
        """A result for JSON: words and entities, without keys that have no value."""
        words = [
            {name: value for name, value in asdict(word).items() if value is not None}
            for word in result.words
        ]
        if not self.finds_entities:
            return {"words": words}
        return {"words": words, "entities": [asdict(entity) for entity in result.entities]}

    def with_options(self, *, pretokenised: bool = False, entities: bool = False) -> "Tagger":
        """The same with options: split words at white space only; print ``entities``."""
        if entities and not self.finds_entities:
            raise BadInput("entities cannot be printed: the tags of this model mark none")
        find_words = spaced_spans if pretokenised else self.find_words
        return replace(self, find_words=find_words, prints_entities=entities)


class Tag(EncoderTask):
    """The task "tag", for any trunk. ``EncoderTask`` reads the files and runs the rest."""

    name = "tag"
    head, predictor_class = TokenLabelHead, Tagger
    tables: ClassVar = {
        "text": EncoderTextConfig,
        "labels": TagsConfig,
        "distillation": LabelDistillationConfig,
    }
    dev_metrics = ("F1", "accuracy", "Pearson")
    test_metrics = ("F1", "accuracy", "Pearson", "precision", "recall")

    @property
    def tags_config(self) -> TagsConfig:
        """The table ``[labels]`` of the recipe."""
        return self.table(TagsConfig)

    def texts(self, example: TaggedExample) -> tuple[str, ...]:
        """The sentence, from which a tokenizer may be trained."""
        return (" ".join(example.words),)

    def label_set(self, examples: Sequence[TaggedExample]) -> LabelSet:
        """The tags that occur; in the scheme of the recipe, all that it has for their entities."""
        tags = {*chain.from_iterable(self._tags(example) for example in examples)}
        if (scheme := self.tags_config.scheme) is not None:
            tags = scheme_tags(tags, scheme)
        return LABEL_SETS[self.tags_config.kind].of(tags, self.tags_config.names or {})

    def _tags(self, example: TaggedExample) -> Sequence[str]:
        """The gold tags of an example, in the scheme of the recipe."""
        scheme = self.tags_config.scheme
        try:
            return example.tags if scheme is None else to_scheme(example.tags, scheme)
        except BadInput as error:
            raise BadInput(f"{example.where}: {error}") from None

    def _known_tags(self, labels: LabelSet, example: TaggedExample) -> list[str]:
        """The same; of an entity that the labels do not have, as the file has it."""
        pairs = zip(self._tags(example), example.tags, strict=True)
        return [tag if tag in labels else in_file for tag, in_file in pairs]

    def encode(
        self, tokenizer: RowTokenizer, labels: LabelSet, examples: Sequence[TaggedExample]
    ) -> list[Encoded]:
        """(row, target of each token) for each sentence, or for each window of a long one."""
        targets = [
            np.array(
                [
                    labels.encode((tag,), example.where)[0]
                    for tag in self._known_tags(labels, example)
                ]
            )
            for example in examples
        ]
        encoded: list[Encoded] = []
        sentences = [example.words for example in examples]
        for number, window in _windows(tokenizer, sentences, self.row_length(tokenizer)):
            of_tokens = labels.no_targets(len(window.row.tokens))
            of_tokens[window.first_tokens] = targets[number][window.words]
            encoded.append((window.row, of_tokens))
        return encoded

    def teacher_logits(
        self, teacher: Tagger, tokenizer: RowTokenizer, examples: Sequence[TaggedExample]
    ) -> list[np.ndarray]:
        """(tokens, tags) for each row of ``encode``: those of a word at its first token."""
        sentences = [example.words for example in examples]
        logits, of_rows = teacher.logits(sentences), []
        for number, window in _windows(tokenizer, sentences, self.row_length(tokenizer)):
            of_tokens = np.zeros((len(window.row.tokens), len(teacher.labels)))
            of_tokens[window.first_tokens] = logits[number][window.words]
            of_rows.append(of_tokens)
        return of_rows

    def make_head(self, dropout: float) -> TokenLabelHead:
        """A linear layer over the state of each token."""
        return TokenLabelHead(1, dropout)

    def with_heads(self, facts: TrunkWithHeads) -> TrunkWithHeads:
        """That head and, with a CRF, the transitions between tags."""
        facts = super().with_heads(facts)
        more = (TransitionHead(1),) if self.tags_config.crf else ()
        return replace(facts, output_heads=(*facts.output_heads, *more))

    def make_objective(self, labels: LabelSet, encoded: Sequence[Encoded]) -> Objective:
        """Cross-entropy over tags, of each word or of all together; squared error of numbers."""
        if self.tags_config.crf:
            return LabelSequences()
        targets = (target for _, of_row in encoded for target in of_row if target != IGNORED)
        weights = class_weights(labels, self.tags_config.weights, targets, complete=False)
        make = TOKEN_OBJECTIVES[labels.problem_type]
        return make(len(labels), self.recipe.train.smoothing, weights)

    def score(
        self, predictor: Tagger, examples: Sequence[TaggedExample], with_interval: bool = False
    ) -> TaskScores:
        """F1 of entities if tags mark any; else accuracy over words, or correlation of numbers."""
        labels = predictor.labels
        results = predictor.predict([example.words for example in examples])
        golds = [
            [labels.gold((tag,), example.where) for tag in self._known_tags(labels, example)]
            for example in examples
        ]
        if predictor.finds_entities:
            tags = [result.tags for result in results]
            scores = entity_scores(golds, tags, with_interval)
            return TaskScores(scores, entity_table(golds, tags))
        values = [word.prediction for result in results for word in result.words]
        return SCORES[labels.problem_type]([*chain(*golds)], values, with_interval)


def _windows(
    tokenizer: RowTokenizer, sentences: Sequence[Sequence[str]], longest: int
) -> Iterator[tuple[int, WordRow]]:
    """(index of the sentence, row): one row for each sentence, or several for a long one."""
    ids = iter(tokenizer.pieces([*chain(*sentences)]))  # of all words at once: tokenizers batch
    for number, sentence in enumerate(sentences):
        of_words = [*islice(ids, len(sentence))]
        for window in tokenizer.template.windows_of_words(of_words, longest):
            yield number, window


def _best_sequences(logits: Sequence[Tensor], table: Tensor) -> list[tuple[list[int], list[float]]]:
    """The best tags of each sentence, and their probabilities."""
    layout = Layout.ragged([*map(len, logits)])
    given = layout.pad(torch.cat([*logits])), layout.real_BL, table
    tags_BL, probabilities_BLV = viterbi(*given), marginals(*given)
    chosen_BL = probabilities_BLV.gather(2, tags_BL[:, :, None])[:, :, 0]
    return [
        (tags_L[:count].tolist(), chosen_L[:count].tolist())
        for tags_L, chosen_L, count in zip(tags_BL, chosen_BL, layout.known_lengths, strict=True)
    ]


def _spans_of_joined(words: Sequence[str]) -> list[Span]:
    """The characters of each word when words are joined by spaces."""
    starts = accumulate((len(word) + 1 for word in words), initial=0)
    return [Span(start, start + len(word)) for word, start in zip(words, starts, strict=False)]
