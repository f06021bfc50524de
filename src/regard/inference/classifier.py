"""Labels, or numbers, of texts, pairs of texts and images, with a model that has a label head."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain, islice
from typing import ClassVar

import torch
from torch import Tensor

from regard.core.checks import listed
from regard.core.errors import BadItem
from regard.core.tape import NULL_TAPE, NullTape
from regard.inference.component import Result, Row
from regard.inference.predictor import Predictor
from regard.inference.row_batches import ModelRow, TextOrPair, read_files
from regard.models.heads import AnyHead
from regard.models.label_heads import LabelHead, SentencePairHead
from regard.text.label_sets import LabelSet, MultiLabelSet, RegressionSet, SingleLabelSet
from regard.text.long_texts import LONG_TEXTS, CutTexts, InputRows
from regard.text.words import one_or_two_texts

ClassifierRow = Row[TextOrPair, Sequence[ModelRow]]
THRESHOLD = 0.5  # the probability above which one of several labels is predicted


@dataclass(frozen=True)
class LabelPrediction:
    """The most probable label, and the probability of each."""

    empty_record: ClassVar = {"label": None, "probability": None, "probabilities": None}
    columns: ClassVar = ("label", "probability")
    label: str
    probabilities: dict[str, float]

    @classmethod
    def of(cls, logits_V: Tensor, names: Sequence[str]) -> "LabelPrediction":
        """The prediction from the logits of all labels, by softmax."""
        probabilities = dict(zip(names, torch.softmax(logits_V, dim=-1).tolist(), strict=True))
        return cls(max(probabilities, key=probabilities.__getitem__), probabilities)

    @property
    def probability(self) -> float:
        """The probability of the label."""
        return self.probabilities[self.label]

    @property
    def scores(self) -> dict[str, float]:
        """The probability of each label."""
        return self.probabilities

    @property
    def value(self) -> str:
        """The label, to be compared with the gold label."""
        return self.label

    @property
    def line(self) -> str:
        """Label and probability, separated by a tab."""
        return f"{_on_one_line(self.label)}\t{self.probability:.4f}"

    @property
    def summary(self) -> str:
        """Label and probability, for a title."""
        return f"{self.label}  {self.probability:.3f}"

    @property
    def record(self) -> dict[str, object]:
        """Label and all probabilities, for JSON."""
        return {"label": self.label, "probability": self.probability, **asdict(self)}


@dataclass(frozen=True)
class MultiLabelPrediction:
    """Labels with a probability above 0.5, possibly none, and the probability of each label."""

    empty_record: ClassVar = {"labels": None, "probabilities": None}
    columns: ClassVar = ("labels",)
    labels: tuple[str, ...]
    probabilities: dict[str, float]

    @classmethod
    def of(cls, logits_V: Tensor, names: Sequence[str]) -> "MultiLabelPrediction":
        """The prediction from the logits of all labels, each by its own sigmoid."""
        probabilities = dict(zip(names, logits_V.sigmoid().tolist(), strict=True))
        likely = tuple(name for name in names if probabilities[name] > THRESHOLD)
        return cls(likely, probabilities)

    @property
    def scores(self) -> dict[str, float]:
        """The probability of each label."""
        return self.probabilities

    @property
    def value(self) -> tuple[str, ...]:
        """The labels, to be compared with the gold labels."""
        return self.labels

    @property
    def line(self) -> str:
        """The labels, separated by tabs."""
        return "\t".join(map(_on_one_line, self.labels))

    @property
    def summary(self) -> str:
        """The labels with their probabilities."""
        likely = (f"{name}  {self.probabilities[name]:.3f}" for name in self.labels)
        return ", ".join(likely) or "no label"

    @property
    def record(self) -> dict[str, object]:
        """The prediction for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class NumberPrediction:
    """Predicted numbers (regression), each under its name."""

    empty_record: ClassVar = {"values": None}
    columns: ClassVar = ("value",)
    values: dict[str, float]

    @classmethod
    def of(cls, logits_V: Tensor, names: Sequence[str]) -> "NumberPrediction":
        """The prediction from the outputs of the head."""
        return cls(dict(zip(names, logits_V.tolist(), strict=True)))

    @property
    def scores(self) -> dict[str, float]:
        """The numbers by name."""
        return self.values

    @property
    def value(self) -> float:
        """The first number, which is compared with the gold number."""
        return next(iter(self.values.values()))

    @property
    def line(self) -> str:
        """The numbers, separated by tabs."""
        return "\t".join(f"{value:.4f}" for value in self.values.values())

    @property
    def summary(self) -> str:
        """Each number under its name."""
        return ", ".join(f"{name}  {value:.3f}" for name, value in self.values.items())

    @property
    def record(self) -> dict[str, object]:
        """The prediction for JSON."""
        return asdict(self)


TextPrediction = LabelPrediction | MultiLabelPrediction | NumberPrediction
PREDICTIONS: dict[str, type[TextPrediction]] = {
    SingleLabelSet.problem_type: LabelPrediction,
    MultiLabelSet.problem_type: MultiLabelPrediction,
    RegressionSet.problem_type: NumberPrediction,
}


def _on_one_line(label: str) -> str:
    """A label without line breaks and tabs: it may be the name of a folder."""
    return " ".join(label.split())


@dataclass(frozen=True, eq=False)
class Classifier(Predictor[TextOrPair, Sequence[ModelRow], TextPrediction]):
    """The component "classify" of a model with a label head.

    Texts of more than ``max_length`` tokens are truncated, or, if ``long`` is "windows", read in
    windows that share ``stride`` tokens; the logits of a text are the mean over its windows.
    """

    name = "classify"
    head: ClassVar[type[AnyHead]] = LabelHead
    labels: LabelSet
    long: str = "cut"
    stride: int | None = None

    @property
    def long_texts(self) -> CutTexts:
        """How texts are read that are longer than a row."""
        return LONG_TEXTS[self.long](self.stride)

    def is_cut(self, given: TextOrPair, cost: int) -> bool:
        return self.long_texts.truncates and super().is_cut(given, cost)

    @property
    def empty_record(self) -> Mapping[str, object]:
        return PREDICTIONS[self.labels.problem_type].empty_record

    @property
    def columns(self) -> tuple[str, ...]:
        return PREDICTIONS[self.labels.problem_type].columns

    def cells(self, result: Result[TextPrediction]) -> list[dict[str, object]]:
        return [{key: getattr(result.value, key) for key in self.columns}]

    def rows(self, inputs: Sequence[TextOrPair], keys: Sequence[int]) -> list[ClassifierRow]:
        every = self._read(inputs)
        first = read_files(self.module, [own[0] for own in every])
        rows = [[row, *own[1:]] for row, own in zip(first, every, strict=True)]
        return [
            self.prepared(key, given, own, sum(len(row.tokens) for row in own))
            for key, given, own in zip(keys, inputs, rows, strict=True)
        ]

    def values(
        self, rows: Sequence[ClassifierRow], tape: NullTape = NULL_TAPE
    ) -> list[TextPrediction]:
        logits = self._mean_logits([row.data for row in rows], tape)
        result = PREDICTIONS[self.labels.problem_type]
        return [result.of(logits_V, self.labels.names) for logits_V in logits]

    def logits(self, inputs: Sequence[TextOrPair]) -> list[Tensor]:
        """Logits (labels,) for each text or pair."""
        return self._mean_logits(self._read(inputs))

    def _read(self, inputs: Sequence[TextOrPair]) -> InputRows:
        return self.long_texts.rows(self.tokenizer, listed(inputs), self.max_length)

    def _mean_logits(
        self, rows: Sequence[Sequence[ModelRow]], tape: NullTape = NULL_TAPE
    ) -> list[Tensor]:
        """Logits (labels,) of each input: the mean over its rows."""
        logits = iter(self.head_logits(self.head, [*chain(*rows)], tape))
        return [torch.stack([*islice(logits, len(own))]).mean(0) for own in rows]

    def parse(self, line: str, where: str) -> TextOrPair:
        return self.tokenizer.parse(line, where)


@dataclass(frozen=True, eq=False)
class SentencePairClassifier(Classifier):
    """A classifier of pairs, pre-trained by next-sentence or sentence-order prediction."""

    head: ClassVar = SentencePairHead

    def rows(self, inputs: Sequence[TextOrPair], keys: Sequence[int]) -> list[ClassifierRow]:
        for number, given in enumerate(inputs, start=1):
            if len(one_or_two_texts(given, number)) == 1:
                raise BadItem(number, "this model classifies pairs of texts: give two texts")
        return super().rows(inputs, keys)
