"""Multiple choice: a text and its possible continuations in, the best continuation out."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import ClassVar, NamedTuple

import torch

from regard.core.batch import TokenRow
from regard.core.errors import BadInput, BadItem
from regard.core.machine import least_stable_rows
from regard.core.tape import NULL_TAPE, NullTape
from regard.data.readers.examples import ChoiceExample
from regard.data.readers.fields import field_of, json_object, typed
from regard.inference.component import Row
from regard.inference.inputs import check_pairs
from regard.inference.predictor import Predictor
from regard.inference.row_batches import check_segments
from regard.layers.kernels.bucketed import equal_lengths
from regard.metrics.classification import classification_scores
from regard.models.heads import AnyHead
from regard.models.label_heads import ChoiceHead
from regard.models.trunk_with_heads import TrunkWithHeads
from regard.objectives.label_losses import MultipleChoice
from regard.tasks.encoder_task import Encoded, EncoderTask
from regard.tasks.task import TaskScores
from regard.text.text_tables import EncoderTextConfig
from regard.text.tokenizers.row_tokenizer import RowTokenizer
from regard.text.words import check_text


@dataclass(frozen=True)
class ChoicePrediction:
    """The number of the best choice, counted from 0, and the probability of each."""

    index: int
    text: str
    probabilities: tuple[float, ...]

    @property
    def probability(self) -> float:
        """The probability of the best choice."""
        return self.probabilities[self.index]

    @property
    def line(self) -> str:
        """The number and the probability of the choice."""
        return f"{self.index}\t{self.probability:.4f}"

    @property
    def record(self) -> dict[str, object]:
        """The choice for JSON, with all probabilities."""
        return {
            "choice": self.index,
            "text": self.text,
            "probability": self.probability,
            "probabilities": self.probabilities,
        }


Choices = tuple[str, Sequence[str]]  # a text and its possible continuations


class PairRow(NamedTuple):
    """A choice, and its row with the text before it."""

    row: TokenRow
    choice: str


ChoiceRow = Row[Choices, list[PairRow]]


@dataclass(frozen=True, eq=False)
class Chooser(Predictor[Choices, list[PairRow], ChoicePrediction]):
    """A model with a choice head; a pair of text and choice is truncated to ``max_length``."""

    name = "choose"
    empty_record: ClassVar = dict.fromkeys(("choice", "text", "probability", "probabilities"))
    record_keys = (("first", "choices"),)
    columns = ("choice", "probability")

    def rows(self, inputs: Sequence[Choices], keys: Sequence[int]) -> list[ChoiceRow]:
        pairs = check_pairs(inputs, "(text, choices)")
        for number, (text, choices) in enumerate(pairs, start=1):
            if not isinstance(choices, tuple | list) or not choices:
                raise BadItem(number, "the list of choices is empty")
            for choice in (text, *choices):
                check_text(choice, number)
        rows = self.read_pairs([[(text, choice) for choice in choices] for text, choices in pairs])
        check_segments(self.module, [own[0].row for own in rows])
        return [
            self.prepared(key, value, own, sum(len(pair.row.tokens) for pair in own))
            for key, value, own in zip(keys, pairs, rows, strict=True)
        ]

    def read_pairs(self, inputs: Sequence[Sequence[tuple[str, str]]]) -> list[list[PairRow]]:
        """The rows of each input: the text with each of its choices."""
        rows = iter(self.tokenizer.rows([*chain(*inputs)], self.max_length))
        return [[PairRow(next(rows), choice) for _, choice in pairs] for pairs in inputs]

    def values(
        self, rows: Sequence[ChoiceRow], tape: NullTape = NULL_TAPE
    ) -> list[ChoicePrediction]:
        return self.choose([row.data for row in rows], tape)

    def choose(
        self, inputs: Sequence[Sequence[PairRow]], tape: NullTape = NULL_TAPE
    ) -> list[ChoicePrediction]:
        """The best of the choices of each input."""
        rows = [pair.row for pair in chain(*inputs)]
        with equal_lengths(least_stable_rows()):  # the scores of an input are those of it alone
            scores = iter(self.head_logits(ChoiceHead, rows, tape))
        results = []
        for pairs in inputs:
            logits = torch.cat([next(scores) for _ in pairs])
            best = int(logits.argmax())
            probabilities = tuple(logits.softmax(0).tolist())
            results.append(ChoicePrediction(best, pairs[best].choice, probabilities))
        return results

    def is_cut(self, value: Choices, cost: int) -> bool:
        most = self.max_length
        return most is not None and self.token_count(value, most) > most

    def row_texts(self, value: Choices) -> list[tuple[str, ...]]:
        text, choices = value
        return [(text, choice) for choice in choices]

    def parse(self, line: str, where: str) -> Choices:
        return self.parse_record(json_object(line, where), where)

    def parse_record(self, record: Mapping[str, object], where: str) -> Choices:
        choices = field_of(record, "choices", list, where)
        if not choices:
            raise BadInput(f"{where}: the list of choices is empty; give two or more")
        texts = [typed(choice, str, "a choice", where) for choice in choices]
        return field_of(record, "first", str, where), texts


class Choose(EncoderTask[ChoiceExample, RowTokenizer, Chooser, None]):
    """The task "choose"."""

    name = "choose"
    head, predictor_class = ChoiceHead, Chooser
    own_tables: ClassVar = {"text": EncoderTextConfig}
    dev_metrics = test_metrics = ("accuracy",)

    def heads(self, facts: TrunkWithHeads) -> tuple[AnyHead, ...]:
        return (ChoiceHead(facts.trunk.stack.dropout),)

    def texts(self, example: ChoiceExample) -> tuple[str, ...]:
        return tuple(chain.from_iterable(example.choices))

    def encode(
        self, reading: RowTokenizer, labels: None, examples: Sequence[ChoiceExample]
    ) -> list[Encoded]:
        pairs = [*chain(*(example.choices for example in examples))]
        rows = iter(reading.rows(pairs, self.row_length(reading)))
        return [([*islice(rows, len(example.choices))], _label(example)) for example in examples]

    def make_objective(self, labels: None, encoded: Sequence[Encoded]) -> MultipleChoice:
        counts = Counter(len(rows) for rows, _ in encoded)
        if len(counts) > 1:
            numbers = ", ".join(map(str, sorted(counts)))
            raise BadInput(f"questions have {numbers} choices; all must have the same number")
        return MultipleChoice(next(iter(counts)))

    def score(
        self, predictor: Chooser, examples: Sequence[ChoiceExample], with_interval: bool = False
    ) -> TaskScores:
        results = predictor.choose(predictor.read_pairs([example.choices for example in examples]))
        golds = [str(_label(example)) for example in examples]
        chosen = [str(result.index) for result in results]
        return TaskScores(classification_scores(golds, chosen, with_interval)[:1])


def _label(example: ChoiceExample) -> int:
    if example.label is None:
        raise BadInput(f"{example.where}: the right choice is hidden (test set without labels)")
    return example.label
