"""What all objectives have in common: one forward pass, and a loss for the head they teach."""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from torch import Tensor, nn

from regard.ground.batch import Batch, BatchLimits, PackedTokens, as_row, pack_texts
from regard.ground.tape import NULL_TAPE, NullTape
from regard.models.build.trunk_with_heads import Outputs


class Objective:
    """An objective teaches one ``head``: it collates examples, and computes their loss.

    An example of a whole row is (tokens, target); the loss of a step is the sum over its targets
    divided by their weights.
    """

    head: ClassVar[str]

    def length(self, example: Any) -> tuple[int, ...]:
        """Tokens of each row of an example."""
        return (len(as_row(example[0]).tokens),)

    def weight(self, example: Any) -> float | np.ndarray:
        """How much its targets count."""
        return 1

    def read(self, rows: Sequence[Any], limits: BatchLimits | None = None) -> PackedTokens:
        """The rows alone; with a ``limits``, of fixed shape."""
        return pack_texts(rows, limits)

    def collate(self, examples: Sequence[Any], limits: BatchLimits | None = None) -> Batch:
        """A batch of examples; with a ``limits``, of fixed shape."""
        raise NotImplementedError

    def __call__(
        self, model: nn.Module, batch: Batch, tape: NullTape = NULL_TAPE
    ) -> tuple[Tensor, Tensor]:
        """Sums over the batch: (loss, negative log-likelihood)."""
        return self.loss(model(batch.inputs, positions=batch.positions, tape=tape), batch)

    def loss(self, outputs: Outputs, batch: Batch) -> tuple[Tensor, Tensor]:
        """The same from the outputs of a model."""
        raise NotImplementedError
