"""Tagging: a tag (or a number) for each word of a sentence, and the entities that tags mark.

A word is labelled at its first token; other tokens have no target.
"""

from collections.abc import Sequence
from itertools import chain
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import model_validator

from regard.core.batch import IGNORED
from regard.core.config import EMPTY_IS_NONE
from regard.core.errors import BadInput
from regard.data.readers.examples import TaggedExample
from regard.inference.tagger import Tagger, word_windows
from regard.metrics.entities import entity_scores, entity_table, scheme_tags, to_scheme
from regard.models.heads import AnyHead
from regard.models.label_heads import TokenLabelHead, TransitionHead
from regard.models.trunk_with_heads import TrunkWithHeads
from regard.objectives.label_distillation import LabelDistillationConfig
from regard.objectives.label_losses import TOKEN_OBJECTIVES, LabelSequences
from regard.objectives.objective import Objective
from regard.tasks.encoder_task import Encoded, EncoderTask
from regard.tasks.labels import SCORES, AnyLabelsConfig, ClassWeights, class_weights
from regard.tasks.task import TaskScores
from regard.text.label_sets import LABEL_SETS, LabelSet
from regard.text.text_tables import EncoderTextConfig
from regard.text.tokenizers.row_tokenizer import RowTokenizer


class TagsConfig(AnyLabelsConfig):
    """The table ``[labels]`` of a recipe with ``task = "tag"``.

    A word has "one" tag or a "number". Tags of entities are converted to ``scheme`` ("" or none:
    not converted), and the model has all its tags for the entities that occur, also those that the
    training data lacks. ``weights`` are one per tag (default 1), or "balanced": each tag has the
    same total weight.
    """

    unread: ClassVar = {"one": (), "number": ("names", "weights", "scheme", "crf")}
    kind: Literal["one", "number"] = "one"
    """A word has one tag, or a number."""
    names: dict[str, str] | None = None
    """Names of tags, by their spelling in files."""
    weights: ClassWeights | None = None
    """The weight of each tag in the loss, or "balanced"."""
    crf: bool = False
    """Tags of a sentence are scored together, by a conditional random field."""
    scheme: Annotated[Literal["IOB1", "IOB2", "BIOES", "BILOU", ""] | None, EMPTY_IS_NONE] = None
    """The scheme that tags of entities are converted to."""

    @model_validator(mode="after")
    def _weights_without_crf(self) -> "TagsConfig":
        if self.crf and self.weights is not None:
            raise ValueError("weights of single tags cannot be used with crf")
        return self


class Tag(EncoderTask[TaggedExample, RowTokenizer, Tagger, LabelSet]):
    """The task "tag", for any trunk."""

    name = "tag"
    head, predictor_class, drawn = TokenLabelHead, Tagger, ("unknown",)
    own_tables: ClassVar = {
        "text": EncoderTextConfig,
        "labels": TagsConfig,
        "distillation": LabelDistillationConfig,
    }
    dev_metrics = ("F1", "accuracy", "Pearson")
    test_metrics = ("F1", "accuracy", "Pearson", "precision", "recall")

    @property
    def tags_config(self) -> TagsConfig:
        """The table ``[labels]`` of the recipe."""
        return self.tables[TagsConfig]

    def texts(self, example: TaggedExample) -> tuple[Sequence[str]]:
        return (example.words,)

    def label_set(self, examples: Sequence[TaggedExample]) -> LabelSet:
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
        """Gold tags in the scheme of the recipe; tags of unknown entities are not converted."""
        pairs = zip(self._tags(example), example.tags, strict=True)
        return [tag if tag in labels else in_file for tag, in_file in pairs]

    def encode(
        self, reading: RowTokenizer, labels: LabelSet, examples: Sequence[TaggedExample]
    ) -> list[Encoded]:
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
        for number, window in word_windows(reading, sentences, self.row_length(reading)):
            of_tokens = labels.no_targets(len(window.row.tokens))
            of_tokens[window.first_tokens] = targets[number][window.words]
            encoded.append((window.row, of_tokens))
        return encoded

    def teacher_logits(
        self, teacher: Tagger, reading: RowTokenizer, examples: Sequence[TaggedExample]
    ) -> list[np.ndarray]:
        sentences = [example.words for example in examples]
        logits, of_rows = teacher.logits(sentences), []
        for number, window in word_windows(reading, sentences, self.row_length(reading)):
            of_tokens = np.zeros((len(window.row.tokens), len(teacher.labels)))
            of_tokens[window.first_tokens] = logits[number][window.words]
            of_rows.append(of_tokens)
        return of_rows

    def heads(self, facts: TrunkWithHeads) -> tuple[AnyHead, ...]:
        head = TokenLabelHead(1, facts.trunk.stack.dropout)
        return (head, TransitionHead(1)) if self.tags_config.crf else (head,)

    def make_objective(self, labels: LabelSet, encoded: Sequence[Encoded]) -> Objective:
        if self.tags_config.crf:
            return LabelSequences()
        targets = (target for _, of_row in encoded for target in of_row if target != IGNORED)
        weights = class_weights(labels, self.tags_config.weights, targets, complete=False)
        make = TOKEN_OBJECTIVES[labels.problem_type]
        return make(len(labels), self.tables.smoothing, weights)

    def score(
        self, predictor: Tagger, examples: Sequence[TaggedExample], with_interval: bool = False
    ) -> TaskScores:
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
