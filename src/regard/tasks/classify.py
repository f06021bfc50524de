"""Classification: texts in, labels with probabilities out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

from regard.objectives.labels import Classification
from regard.tasks.inputs import InputLimits, check_texts, read
from regard.tasks.rows import Asked, Runner, rows_of
from regard.text.encoder_tokenizer import EncoderTokenizer
from regard.text.labels import LabelSet, MultiLabelSet, RegressionSet, SingleLabelSet
from regard.text.plain_tokenizer import PlainTokenizer

HOLDS = 0.5  # a label that is more probable holds, where there may be several


@dataclass(frozen=True)
class Prediction:
    """The most probable class, and how probable each is."""

    label: str
    probabilities: dict[str, float]

    @property
    def probability(self) -> float:
        """Of its label."""
        return self.probabilities[self.label]

    @property
    def answer(self) -> str:
        """What is compared with the label that is right."""
        return self.label

    @property
    def line(self) -> str:
        """The label and its probability."""
        return f"{self.label}  {self.probability:.3f}"


@dataclass(frozen=True)
class Several:
    """The labels that hold, perhaps none, and how probable each is."""

    labels: tuple[str, ...]
    probabilities: dict[str, float]

    @property
    def answer(self) -> tuple[str, ...]:
        """What is compared with the labels that are right."""
        return self.labels

    @property
    def line(self) -> str:
        """The labels that hold, each with its probability."""
        held = (f"{name}  {self.probabilities[name]:.3f}" for name in self.labels)
        return ", ".join(held) or "no label"


@dataclass(frozen=True)
class Numbers:
    """What was to be told in numbers, each under its name."""

    values: dict[str, float]

    @property
    def value(self) -> float:
        """The first of them, which mostly is the only one."""
        return next(iter(self.values.values()))

    @property
    def answer(self) -> float:
        """What is compared with the number that is right."""
        return self.value

    @property
    def line(self) -> str:
        """Each number under its name."""
        return ", ".join(f"{name}  {value:.3f}" for name, value in self.values.items())


Judgement = Prediction | Several | Numbers


@dataclass(frozen=True, eq=False)
class Classifier(Runner):
    """A model with its vocabulary and labels, and how many texts it takes at once."""

    model: nn.Module
    tokenizer: PlainTokenizer
    labels: LabelSet
    rows: int = 256

    @property
    def objective(self) -> Classification:
        """How texts are read: the same at training and here."""
        return Classification()

    def predict(self, asked: Sequence[str]) -> list[Prediction]:
        """The class of each text, which does not depend on the others."""
        limits = InputLimits.of(cast(Any, self.model).encoder)
        rows = read(check_texts(asked), self.tokenizer.words.encode_all, limits)
        return _single(self.of_rows(rows, "label", len(self.labels)), self.labels.names)


@dataclass(frozen=True, eq=False)
class EncoderClassifier(Runner):
    """The same for an encoder, which reads texts or pairs of them, cut to ``longest`` tokens."""

    model: nn.Module
    tokenizer: EncoderTokenizer
    labels: LabelSet
    rows: int = 256
    longest: int | None = None

    def predict(self, asked: Sequence[Asked]) -> list[Judgement]:
        """The labels of each text or pair, or its numbers: whatever the model was tuned to say."""
        rows = rows_of(self.tokenizer, asked, self.longest)
        logits_NV = self.of_rows(rows, "label", len(self.labels))
        return [*PREDICTIONS[self.labels.problem_type](logits_NV, self.labels.names)]


def _single(logits_NV: Tensor, names: Sequence[str]) -> list[Prediction]:
    probable = _named(torch.softmax(logits_NV, dim=-1), names)
    return [Prediction(max(one, key=one.__getitem__), one) for one in probable]


def _several(logits_NV: Tensor, names: Sequence[str]) -> list[Several]:
    probable = _named(logits_NV.sigmoid(), names)
    return [Several(tuple(n for n in names if one[n] > HOLDS), one) for one in probable]


def _numbers(logits_NV: Tensor, names: Sequence[str]) -> list[Numbers]:
    return [Numbers(one) for one in _named(logits_NV, names)]


PREDICTIONS: dict[str, Callable[[Tensor, Sequence[str]], Sequence[Judgement]]] = {
    SingleLabelSet.problem_type: _single,
    MultiLabelSet.problem_type: _several,
    RegressionSet.problem_type: _numbers,
}
"""What the logits of a model mean, by its labels."""


def _named(values_NV: Tensor, names: Sequence[str]) -> list[dict[str, float]]:
    return [dict(zip(names, one, strict=True)) for one in values_NV.tolist()]
