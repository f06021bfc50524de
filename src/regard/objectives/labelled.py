"""Labels of whole texts as an objective: one of several classes, several at once, or numbers."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.ground.batch import IGNORED, Batch, BatchLimits, Ids, PackedTokens, TokenRow, pack_texts
from regard.ground.tape import NULL_TAPE, NullTape
from regard.parts.losses import smoothed_cross_entropy

Example = tuple[Ids | TokenRow, Any]  # the text, and what is to be said of it


class OfTexts:
    """What all objectives have in common that say something of whole texts."""

    def length(self, example: Example) -> tuple[int, ...]:
        """Tokens of the text."""
        text = example[0]
        return (len(text.tokens if isinstance(text, TokenRow) else text),)

    def weight(self, example: Example) -> float:
        """How much it counts."""
        return 1

    def collate(self, examples: Sequence[Example], limits: BatchLimits | None = None) -> Batch:
        """A batch of texts; with a ``limits``, of fixed shape."""
        texts = self.read([text for text, _ in examples], limits)
        goals = self.goals([goal for _, goal in examples], texts.layout.rows)
        weight = sum(map(self.weight, examples))
        return Batch(texts, goals, weight, weights_T=self.weights_of(goals))

    def read(self, texts: Sequence[Any], limits: BatchLimits | None = None) -> PackedTokens:
        """The texts alone."""
        return pack_texts(texts, limits)

    def goals(self, goals: Sequence[Any], rows: int) -> Tensor:
        """What is to be said of each row; nothing of those that only fill."""
        raise NotImplementedError

    def weights_of(self, goals: Tensor) -> Tensor | None:
        """How much each goal counts, where not all count the same."""
        return None


@dataclass(frozen=True)
class Labelled(OfTexts):
    """Cross-entropy over classes, for any model that answers a text with one row of logits.

    The loss of a step is the mean over its examples, each weighing what ``weights`` say of its
    class.
    """

    smoothing: float = 0.0
    weights: tuple[float, ...] | None = None

    def weight(self, example: Example) -> float:
        """How much it counts."""
        return 1 if self.weights is None else self.weights[int(example[1][0])]

    def goals(self, goals: Sequence[Ids], rows: int) -> Tensor:
        """The class of each row."""
        goals_B = torch.full((rows,), IGNORED)
        goals_B[: len(goals)] = torch.tensor([int(goal[0]) for goal in goals])
        return goals_B

    def weights_of(self, goals: Tensor) -> Tensor | None:
        """That of its class."""
        return class_weights_of(goals, self.weights)

    def __call__(
        self, model: nn.Module, batch: Batch, tape: NullTape = NULL_TAPE
    ) -> tuple[Tensor, Tensor]:
        """Sums over the batch: (loss, negative log-likelihood)."""
        logits_BV = model(batch.target.tokens_T, batch.target.layout, tape=tape)
        return smoothed_cross_entropy(logits_BV, batch.goals_T, self.smoothing, batch.weights_T)


def class_weights_of(goals_T: Tensor, weights: Sequence[float] | None) -> Tensor | None:
    """How much each goal counts by the weights of classes; one that is ignored may have any."""
    return None if weights is None else torch.tensor(weights)[goals_T.clamp(min=0)]


@dataclass(frozen=True)
class OfNumbers(OfTexts):
    """A number for each of the model's ``outputs``."""

    outputs: int = 1

    def goals(self, goals: Sequence[Sequence[float]], rows: int) -> Tensor:
        """The numbers of each row."""
        goals_BV = torch.full((rows, self.outputs), nan)
        numbers = np.array(goals, dtype=np.float32).reshape(-1, self.outputs)
        goals_BV[: len(goals)] = torch.from_numpy(numbers)
        return goals_BV

    def __call__(
        self, model: nn.Module, batch: Batch, tape: NullTape = NULL_TAPE
    ) -> tuple[Tensor, Tensor]:
        """The sum over the batch, twice: there is no likelihood but this."""
        said_BV = model(batch.target.tokens_T, batch.target.layout, tape=tape)
        counts_BV = ~batch.goals_T.isnan()
        each_BV = self.each(said_BV.float(), batch.goals_T.nan_to_num())
        loss = (each_BV * counts_BV).mean(-1).sum()
        return loss, loss.detach()

    def each(self, said_BV: Tensor, goals_BV: Tensor) -> Tensor:
        """What each number costs."""
        raise NotImplementedError


class Several(OfNumbers):
    """Each label is there (1) or not (0), whatever the others: the mean binary cross-entropy."""

    def each(self, said_BV: Tensor, goals_BV: Tensor) -> Tensor:
        """Of each label alone."""
        return F.binary_cross_entropy_with_logits(said_BV, goals_BV, reduction="none")


class Numbers(OfNumbers):
    """Regression: squared distance."""

    def each(self, said_BV: Tensor, goals_BV: Tensor) -> Tensor:
        """Of each number."""
        return (said_BV - goals_BV) ** 2
