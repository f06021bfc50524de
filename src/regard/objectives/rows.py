"""Objectives of pre-training: each makes the rows of documents, or annotates rows made by another.

``Sum`` composes them. All read the same rows in one forward pass, each with a head of its own.
"""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from regard.data.documents import Documents
from regard.data.sentence_pairs import Passages, full_rows
from regard.ground.batch import IGNORED, Batch, BatchLimits, Ids, TokenRow, pack_rows
from regard.ground.config import Config
from regard.models.build.trunk_with_heads import Outputs
from regard.models.facts import AnyHead, TrunkWithHeads
from regard.objectives.objective import Objective
from regard.parts.losses import smoothed_cross_entropy
from regard.text.templates import RowBuilder


class AnnotatedRow(NamedTuple):
    """A row, and by head the targets of an objective and the tokens that they belong to."""

    row: TokenRow
    positions: dict[str, Ids]
    targets: dict[str, Any]


Annotate = Callable[[Sequence[AnnotatedRow], np.ndarray, tuple[int, ...]], list[AnnotatedRow]]
"""Rows, their numbers and a key (seed, epoch) → the rows with targets."""


class RowObjective(Objective):
    """An objective over rows of documents; ``smoothing`` is that of its targets."""

    name: ClassVar[str]  # in recipes
    config: ClassVar[type[Config]]  # its table in recipes
    makes_rows: ClassVar[bool] = False
    smoothing: float

    @classmethod
    def of(cls, config: Any, smoothing: float) -> "RowObjective":
        """The objective that its table in a recipe describes."""
        raise NotImplementedError

    def head_facts(self) -> AnyHead:
        """The head that it teaches."""
        raise NotImplementedError

    def check(self, facts: TrunkWithHeads) -> None:
        """Whether it can be taught to that model; if not, an error says why."""

    def rows(self, documents: Documents, template: RowBuilder, longest: int, seed: int) -> Passages:
        """Documents as rows of at most ``longest`` tokens: full ones, of whole sentences."""
        plan = full_rows(documents, template.frame(1), longest)
        return Passages(documents, lambda epoch: plan)

    def annotator(self, tokenizer: Any) -> Annotate | None:
        """How it draws targets for rows, if rows do not bring them."""
        return None

    def positions(self, tokens: int) -> int | None:
        """How many of so many tokens its head reads; None if it reads all of them, or rows."""
        return None

    def length(self, example: AnnotatedRow) -> tuple[int, ...]:
        """Tokens of the row."""
        return (len(example.row.tokens),)

    def collate(self, examples: Sequence[AnnotatedRow], limits: BatchLimits | None = None) -> Batch:
        """A batch of rows; with a ``limits``, of fixed shape."""
        return collate_rows((self,), examples, limits)

    def targets(
        self,
        examples: Sequence[AnnotatedRow],
        starts: np.ndarray,
        rows: int,
        limits: BatchLimits | None,
    ) -> tuple[Tensor | None, Tensor]:
        """Positions in the batch, whose rows start there, and targets; by default one per row."""
        targets_B = torch.full((rows,), IGNORED)
        targets_B[: len(examples)] = torch.tensor([row.targets[self.head] for row in examples])
        return None, targets_B

    def loss(self, outputs: Outputs, batch: Batch) -> tuple[Tensor, Tensor]:
        """Cross-entropy of its targets."""
        logits = outputs.by_head[self.head]
        return smoothed_cross_entropy(logits, batch.targets[self.head], self.smoothing)

    def figures(self, loss: float, accuracy: float) -> dict[str, float]:
        """What is reported of the development set, beside the loss."""
        raise NotImplementedError


def collate_rows(
    objectives: Sequence[RowObjective],
    examples: Sequence[AnnotatedRow],
    limits: BatchLimits | None = None,
) -> Batch:
    """Rows in one batch, with the positions and targets of each objective."""
    inputs = pack_rows([example.row for example in examples], limits, even=True)
    starts = np.cumsum([0, *(len(example.row.tokens) for example in examples)])[:-1]
    positions, targets = {}, {}
    for objective in objectives:
        rows = inputs.layout.rows
        chosen, targets[objective.head] = objective.targets(examples, starts, rows, limits)
        if chosen is not None:
            positions[objective.head] = chosen
    weight = sum(float(one.weight(example)) for one in objectives for example in examples)
    return Batch(inputs, targets, weight, positions)
