"""Multiple choice: a text and its possible continuations in, the best continuation out."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, ClassVar

import torch

from regard.data.files.fields import field_of, json_object, typed
from regard.data.readers import ChoiceExample
from regard.ground.errors import BadInput, BadItem
from regard.inference.batch_runner import Predictor, finite, rows_of
from regard.inference.inputs import check_pairs
from regard.metrics.classification import classification_scores
from regard.models.heads import ChoiceHead
from regard.objectives.labels import MultipleChoice
from regard.tasks.encoder_task import Encoded, EncoderTask
from regard.tasks.task import TaskScores
from regard.text.config import EncoderTextConfig
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
        """That of the best choice."""
        return self.probabilities[self.index]

    @property
    def line(self) -> str:
        """Its number and probability."""
        return f"{self.index}\t{self.probability:.4f}"

    @property
    def record(self) -> dict[str, Any]:
        """The same for JSON, with all probabilities."""
        return {
            "choice": self.index,
            "text": self.text,
            "probability": self.probability,
            "probabilities": self.probabilities,
        }


@dataclass(frozen=True, eq=False)
class Chooser(Predictor):
    """A model with a choice head; a pair of text and choice is truncated to ``max_length``."""

    empty_record: ClassVar = dict.fromkeys(("choice", "text", "probability", "probabilities"))

    def predict(self, inputs: Sequence[tuple[str, Sequence[str]]]) -> list[ChoicePrediction]:
        given = check_pairs(inputs, "(text, choices)")
        for number, (text, choices) in enumerate(given, start=1):
            if not isinstance(choices, tuple | list) or not choices:
                raise BadItem(number, "there are no choices to choose from")
            for one in (text, *choices):
                check_text(one, number)
        return self.predict_pairs([[(text, one) for one in choices] for text, choices in given])

    def predict_pairs(self, inputs: Sequence[Sequence[tuple[str, str]]]) -> list[ChoicePrediction]:
        """The same where each choice is a pair of texts."""
        rows = rows_of(self.tokenizer, [*chain(*inputs)], self.max_length)
        scores = iter(self.logits_of(ChoiceHead, rows, convert=finite))
        results = []
        for pairs in inputs:
            logits = torch.cat([next(scores) for _ in pairs])
            best = int(logits.argmax())
            probabilities = tuple(logits.softmax(0).tolist())
            results.append(ChoicePrediction(best, pairs[best][1], probabilities))
        return results

    def row_texts(self, given: tuple[str, Sequence[str]]) -> list[tuple[str, ...]]:
        text, choices = given
        return [(text, choice) for choice in choices]

    def parse(self, line: str, where: str) -> tuple[str, list[str]]:
        record = json_object(line, where)
        choices = field_of(record, "choices", list, where)
        if not choices:
            raise BadInput(f"{where}: there are no choices to choose from")
        texts = [typed(choice, str, "a choice", where) for choice in choices]
        return field_of(record, "first", str, where), texts


class Choose(EncoderTask):
    """The task "choose"."""

    name = "choose"
    head, predictor_class = ChoiceHead, Chooser
    tables: ClassVar = {"text": EncoderTextConfig}
    dev_metrics = test_metrics = ("accuracy",)

    def make_head(self, dropout: float) -> ChoiceHead:
        return ChoiceHead(dropout)

    def texts(self, example: ChoiceExample) -> tuple[str, ...]:
        return tuple(chain.from_iterable(example.choices))

    def encode(
        self, tokenizer: RowTokenizer, labels: None, examples: Sequence[ChoiceExample]
    ) -> list[Encoded]:
        pairs = [*chain(*(example.choices for example in examples))]
        rows = iter(rows_of(tokenizer, pairs, self.row_length(tokenizer)))
        return [([*islice(rows, len(one.choices))], _label(one)) for one in examples]

    def make_objective(self, labels: None, encoded: Sequence[Encoded]) -> MultipleChoice:
        counts = Counter(len(rows) for rows, _ in encoded)
        if len(counts) > 1:
            numbers = ", ".join(map(str, sorted(counts)))
            raise BadInput(f"questions have {numbers} choices; all must have the same number")
        return MultipleChoice(next(iter(counts)))

    def score(
        self, predictor: Chooser, examples: Sequence[ChoiceExample], with_interval: bool = False
    ) -> TaskScores:
        results = predictor.predict_pairs([example.choices for example in examples])
        golds = [str(_label(example)) for example in examples]
        chosen = [str(result.index) for result in results]
        return TaskScores(classification_scores(golds, chosen, with_interval)[:1])


def _label(example: ChoiceExample) -> int:
    if example.label is None:
        raise BadInput(f"{example.where}: which choice is right is hidden")
    return example.label
