"""Semantic roles: the arguments of the predicates of a sentence (PropBank).

A sentence has a row for each predicate, and one without a mark, from which the model learns to find
predicates. A word is labelled at its first token; other tokens have no target.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np

from regard.core.batch import IGNORED
from regard.core.config import Config
from regard.core.errors import BadInput
from regard.data.readers.examples import Frame, RoleExample
from regard.inference.encoder_model import EncoderModel
from regard.inference.predictor import Predictor
from regard.inference.role_labeller import PREDICATE, RoleLabeller, marked_row
from regard.metrics.entities import OUTSIDE, scheme_tags, tags_of
from regard.metrics.roles import predicate_f1, role_scores, role_table
from regard.models.heads import AnyHead
from regard.models.label_heads import TokenLabelHead
from regard.models.trunk_with_heads import TrunkWithHeads
from regard.objectives.label_losses import TokenClassification
from regard.tasks.encoder_task import Encoded, EncoderTask
from regard.tasks.plan import Plan
from regard.tasks.task import TaskScores
from regard.text.label_sets import LabelSet, SingleLabelSet
from regard.text.text_tables import EncoderTextConfig
from regard.text.tokenizers.row_tokenizer import RowTokenizer

SCHEME = "IOB2"


class RolesConfig(Config):
    """How a predicate is marked in its row, and whether the model finds predicates."""

    mark: Literal["segment", "pair"] = "segment"
    """"segment": the tokens of the predicate have segment 1; "pair": the row is the sentence, then
    the predicate as a second text (Shi & Lin, 2019), for encoders without segments too."""
    predicates: Literal["found", "given"] = "found"
    """"found": the model learns to find predicates, from rows without a mark; "given": whoever
    predicts names them."""


class Roles(EncoderTask[RoleExample, RowTokenizer, RoleLabeller, LabelSet]):
    """The task "roles", for any trunk."""

    name = "roles"
    unit = "sentences"
    head, predictor_class, drawn = TokenLabelHead, RoleLabeller, ("unknown",)
    saved_settings = ("mark", "predicates")
    own_tables: ClassVar = {"text": EncoderTextConfig, "roles": RolesConfig}
    dev_metrics = ("F1", "perfect frames", "predicate F1")
    test_metrics = ("F1", "precision", "recall", "perfect frames", "predicate F1")

    @property
    def roles_config(self) -> RolesConfig:
        """The table ``[roles]`` of the recipe."""
        return self.tables[RolesConfig]

    @property
    def single_label(self) -> bool:
        return True

    def resolve(self, data: Path) -> Plan:
        plan = super().resolve(data)
        if self.roles_config.mark == "segment" and plan.trunk.trunk.segments < 2:
            fault = f"{plan.paper.name} does not distinguish segments of a row"
            raise BadInput(f'roles.mark: {fault}; set roles.mark = "pair"')
        return plan

    def heads(self, facts: TrunkWithHeads) -> tuple[AnyHead, ...]:
        return (TokenLabelHead(1, facts.trunk.stack.dropout),)

    def texts(self, example: RoleExample) -> tuple[Sequence[str]]:
        return (example.words,)

    def label_set(self, examples: Sequence[RoleExample]) -> LabelSet:
        tags = {tag for example in examples for tag in self._tags(example)}
        if not tags:
            raise BadInput("data.train: no sentence has a predicate")
        return SingleLabelSet.of(scheme_tags({*tags, PREDICATE}, SCHEME), {})

    def _tags(self, example: RoleExample) -> Iterator[str]:
        for frame in example.frames:
            yield from _frame_tags(example, frame)

    def notes(self) -> dict[str, object]:
        config = self.roles_config
        return super().notes() | {"mark": config.mark, "predicates": config.predicates}

    @classmethod
    def predictor_of(cls, runner: EncoderModel) -> Predictor:
        if runner.labels is None:
            raise BadInput("this folder has no labels: predictions have no names")
        return super().predictor_of(runner)

    def encode(
        self, reading: RowTokenizer, labels: LabelSet, examples: Sequence[RoleExample]
    ) -> list[Encoded]:
        ids = iter(reading.pieces([word for example in examples for word in example.words]))
        numbers = {name: number for number, name in enumerate(labels.names)}
        longest, encoded = self.row_length(reading), list[Encoded]()
        for example in examples:
            words = [*islice(ids, len(example.words))]
            rows = [
                (marked_row(reading, words, frame.predicate, longest, self.roles_config.mark), tags)
                for frame in example.frames
                for tags in [_frame_tags(example, frame)]
            ]
            if self.roles_config.predicates == "found":
                tags = _predicate_tags(example)
                rows += [(row, tags) for row in reading.template.windows_of_words(words, longest)]
            for window, tags in rows:  # tags that training lacks have no target
                targets = np.array([numbers.get(tag, IGNORED) for tag in tags])
                of_tokens = labels.no_targets(len(window.row.tokens))
                of_tokens[window.first_tokens] = targets[window.words]
                encoded.append((window.row, of_tokens))
        return encoded

    def make_objective(self, labels: LabelSet, encoded: Sequence[Encoded]) -> TokenClassification:
        return TokenClassification(self.tables.smoothing)

    def score(
        self, predictor: RoleLabeller, examples: Sequence[RoleExample], with_interval: bool = False
    ) -> TaskScores:
        golds = [
            {frame.predicate: frame.arguments for frame in example.frames} for example in examples
        ]
        inputs = [(example.words, [*gold]) for example, gold in zip(examples, golds, strict=True)]
        predicted = [
            {frame.predicate: frame.spans for frame in result.frames}
            for result in predictor.predict(inputs)
        ]
        scores = role_scores(golds, predicted, with_interval)
        if predictor.predicates == "found":
            predicates = predictor.find_predicates([example.words for example in examples])
            scores += predicate_f1(golds, predicates, with_interval)
        return TaskScores(scores, role_table(golds, predicted))


def _frame_tags(example: RoleExample, frame: Frame) -> list[str]:
    return tags_of(frame.arguments, len(example.words), SCHEME)


def _predicate_tags(example: RoleExample) -> list[str]:
    """Tags of a sentence without a mark: B-V at every predicate."""
    predicates = {frame.predicate for frame in example.frames}
    return [PREDICATE if place in predicates else OUTSIDE for place in range(len(example.words))]
