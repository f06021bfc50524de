"""Classification: texts in, labels with probabilities out."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

from regard.objectives.labelled import Labelled
from regard.tasks.inputs import InputLimits, check_texts, read
from regard.tasks.rows import Asked, Runner, rows_of
from regard.text.labels import NUMBER, SEVERAL, LabelledText
from regard.text.tuned import TunedText

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
    def line(self) -> str:
        """The label and its probability."""
        return f"{self.label}  {self.probability:.3f}"


@dataclass(frozen=True)
class Several:
    """The labels that hold, perhaps none, and how probable each is."""

    labels: tuple[str, ...]
    probabilities: dict[str, float]

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
    def line(self) -> str:
        """Each number under its name."""
        return ", ".join(f"{name}  {value:.3f}" for name, value in self.values.items())


Judgement = Prediction | Several | Numbers


@dataclass(frozen=True, eq=False)
class Classifier(Runner):
    """A model with its vocabulary and labels, and how many texts it takes at once."""

    model: nn.Module
    text: LabelledText
    rows: int = 256

    @property
    def objective(self) -> Labelled:
        """How texts are read: the same at training and here."""
        return Labelled()

    def predict(self, asked: Sequence[str]) -> list[Prediction]:
        """The class of each text, which does not depend on the others."""
        names = self.text.labels.names
        limits = InputLimits.of(cast(Any, self.model).reader)
        rows = read(check_texts(asked), self.text.words.encode_all, limits)
        logits_NV = self.of_rows(rows, len(names))
        return _one(logits_NV, names)


@dataclass(frozen=True, eq=False)
class EncoderClassifier(Runner):
    """The same for an encoder, which reads texts or pairs of them, cut to ``longest`` tokens."""

    model: nn.Module
    text: TunedText
    rows: int = 256
    longest: int | None = None

    def predict(self, asked: Sequence[Asked]) -> list[Judgement]:
        """The labels of each text or pair, or its numbers: whatever the model was tuned to say."""
        names, kind = self.text.labels.names, self.text.labels.kind
        rows = rows_of(self.text.encoder, asked, self.longest)
        logits_NV = self.of_rows(rows, len(names))
        if kind == SEVERAL:
            probable = _named(logits_NV.sigmoid(), names)
            return [Several(tuple(n for n in names if one[n] > HOLDS), one) for one in probable]
        if kind == NUMBER:
            return [Numbers(one) for one in _named(logits_NV, names)]
        return [*_one(logits_NV, names)]


def _one(logits_NV: Tensor, names: Sequence[str]) -> list[Prediction]:
    probable = _named(torch.softmax(logits_NV, dim=-1), names)
    return [Prediction(max(one, key=one.__getitem__), one) for one in probable]


def _named(values_NV: Tensor, names: Sequence[str]) -> list[dict[str, float]]:
    return [dict(zip(names, one, strict=True)) for one in values_NV.tolist()]
