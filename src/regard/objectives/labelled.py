"""Classification as an objective: given a text, say which class it is."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.ground.batch import IGNORED, Batch, Budget, Ids, Packed, pack
from regard.ground.tape import SILENT, Silent
from regard.parts.loss import smoothed_cross_entropy

Example = tuple[Ids, Ids]  # the text, and its class alone


@dataclass(frozen=True)
class Labelled:
    """Cross-entropy over classes, for any model that answers a text with one row of logits.

    The loss of a step is the mean over its examples, each weighing what ``weights`` say of its
    class.
    """

    smoothing: float = 0.0
    weights: tuple[float, ...] | None = None

    def length(self, example: Example) -> tuple[int]:
        """Tokens of the text."""
        return (len(example[0]),)

    def weight(self, example: Example) -> float:
        """How much it counts."""
        return 1 if self.weights is None else self.weights[int(example[1][0])]

    def collate(self, examples: Sequence[Example], budget: Budget | None = None) -> Batch:
        """A batch of texts; with a ``budget``, of fixed shape."""
        texts = self.read([text for text, _ in examples], budget)
        goals_B = torch.full((texts.layout.rows,), IGNORED)
        goals_B[: len(examples)] = torch.tensor([int(label[0]) for _, label in examples])
        return Batch(texts, goals_B, sum(map(self.weight, examples)))

    def read(self, texts: Sequence[Ids], budget: Budget | None = None) -> Packed:
        """The texts alone, without any marks."""
        return pack(texts, budget)

    def __call__(
        self, model: nn.Module, batch: Batch, tape: Silent = SILENT
    ) -> tuple[Tensor, Tensor]:
        """Sums over the batch: (loss, negative log-likelihood)."""
        logits_BV = model(batch.target.tokens_T, batch.target.layout, tape=tape)
        weights_V = None if self.weights is None else logits_BV.new_tensor(self.weights)
        return smoothed_cross_entropy(logits_BV, batch.goals_T, self.smoothing, weights_V)
