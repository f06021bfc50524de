"""Classification: texts in, labels with probabilities out."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import torch
from torch import nn

from regard.data.packing import in_order
from regard.ground.batch import Budget
from regard.ground.errors import BadInput
from regard.objectives.labelled import Labelled
from regard.text.labelled import LabelledText

TOKENS = 8_192  # read at once
WINDOW = 4_096  # texts read ahead, so that like lengths can be put together


@dataclass(frozen=True)
class Prediction:
    """The most probable class, and how probable each is."""

    label: str
    probabilities: dict[str, float]

    @property
    def probability(self) -> float:
        """Of its label."""
        return self.probabilities[self.label]


@dataclass(frozen=True, eq=False)
class Classifier:
    """A model with its vocabulary and labels, and how many texts it takes at once."""

    model: nn.Module
    text: LabelledText
    rows: int = 256

    @property
    def objective(self) -> Labelled:
        """How texts are read: the same at training and here."""
        return Labelled()

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return next(self.model.parameters()).device

    def stream(self, texts: Iterable[str]) -> Iterator[Prediction]:
        """Predictions as they come, window by window."""
        lines = iter(texts)
        while window := list(islice(lines, WINDOW)):
            yield from self.predict(window)

    @torch.inference_mode()
    def predict(self, texts: Sequence[str]) -> list[Prediction]:
        """The class of each text, which does not depend on the others."""
        ids = self.text.words.encode_all(texts)
        found = np.zeros((len(texts), len(self.text.labels)))
        lengths = np.array([len(one) for one in ids], dtype=np.int64)
        for chosen in in_order(lengths, Budget(TOKENS, self.rows, TOKENS)):
            read = self.objective.read([ids[i] for i in chosen]).to(self.device)
            logits_BV = self.model(read.tokens_T, read.layout)
            found[chosen] = torch.softmax(logits_BV.double(), dim=-1).cpu().numpy()
        if not np.isfinite(found).all():
            raise BadInput("the model is broken: its probabilities are not numbers")
        return [self._named(one) for one in found]

    def _named(self, probabilities: np.ndarray) -> Prediction:
        names = self.text.labels.names
        best = names[int(probabilities.argmax())]
        return Prediction(best, dict(zip(names, probabilities.tolist(), strict=True)))
