"""Spans and their boundaries (Joshi et al., 2019, section 3).

Masked LM over spans of words, whose lengths are geometric, and for each masked token a second
prediction, from the states of the two tokens around its span and its place in the span. The loss is
the sum of both.

A span is as many successive chosen tokens as there are; as in the code of the paper, the boundary
predicts the first 20 of a span.

The order of this file: the table in recipes; the heads; examples → a batch; metrics. The loss is
that of ``RowObjective``.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import exp

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from regard.data.mlm_masking import span_starts
from regard.ground.batch import IGNORED, BatchLimits, pack_ids
from regard.ground.config import Config
from regard.models.facts import AnyHead, SpanBoundaryHead
from regard.objectives.masked_lm import MaskedLM
from regard.objectives.rows import AnnotatedRow, RowObjective


class SpanBoundaryConfig(Config):
    """The table ``[objective.span-boundary]``."""

    rate: float = Field(0.15, gt=0, le=0.5)
    """The share of tokens that are predicted."""
    spans: float = Field(0.2, gt=0, lt=1)
    """The parameter of the geometric distribution of the lengths of spans, in words."""


@dataclass(frozen=True)
class SpanBoundary(RowObjective):
    """Predicts masked tokens from the boundary of their span; the loss is the mean over them."""

    name, config, head = "span-boundary", SpanBoundaryConfig, SpanBoundaryHead.name
    masked: MaskedLM = field(default_factory=lambda: MaskedLM(spans=0.2))

    @classmethod
    def from_config(cls, config: SpanBoundaryConfig, smoothing: float) -> "SpanBoundary":
        """The objective with the settings of a recipe."""
        return cls(MaskedLM(config.rate, smoothing=smoothing, spans=config.spans))

    @property
    def smoothing(self) -> float:  # type: ignore[override]
        """Label smoothing, of both predictions."""
        return self.masked.smoothing

    @property
    def members(self) -> tuple[RowObjective, ...]:
        """The masked LM, and the prediction from boundaries."""
        return (self.masked, self)

    def make_head(self) -> SpanBoundaryHead:
        """Two dense layers and the token embeddings."""
        return SpanBoundaryHead()

    def make_heads(self) -> tuple[AnyHead, ...]:
        """Those of both predictions."""
        return (self.masked.make_head(), self.make_head())

    def weight(self, example: AnnotatedRow) -> float:
        """The number of tokens that it predicts."""
        return int(self._boundaries(example)[1].sum())

    def collate_targets(
        self,
        examples: Sequence[AnnotatedRow],
        starts: np.ndarray,
        rows: int,
        limits: BatchLimits | None,
    ) -> tuple[Tensor, Tensor]:
        """For each chosen token its position after those of its boundary, and the original token.

        With ``limits``, there are as many as masked LM has; the rest is ignored.
        """
        found = [self._boundaries(example) for example in examples]
        targets = [
            np.where(predicted, example.targets[self.masked.head], IGNORED)
            for example, (_, predicted) in zip(examples, found, strict=True)
        ]
        count = sum(map(len, targets))
        size = count if limits is None else self.masked.max_positions(limits)
        positions_3N = torch.zeros(3, size, dtype=torch.int64)
        targets_N = torch.full((size,), IGNORED)
        for row in range(3):
            moved = [at[row] + start for (at, _), start in zip(found, starts, strict=True)]
            positions_3N[row, :count] = pack_ids(moved)
        targets_N[:count] = pack_ids(targets)
        return positions_3N, targets_N

    def _boundaries(self, example: AnnotatedRow) -> tuple[np.ndarray, np.ndarray]:
        """(tokens before and after its span and itself, for each chosen token; those predicted).

        A span at an end of the row, where no token is, and tokens far in a span are not predicted.
        """
        at_N = np.asarray(example.positions[self.masked.head])
        first_N = span_starts(at_N, np.zeros_like(at_N))
        last_N = np.searchsorted(first_N, first_N, side="right") - 1
        before_N, after_N = at_N[first_N] - 1, at_N[last_N] + 1
        whole_N = (before_N >= 0) & (after_N < len(example.row.tokens))
        near_N = at_N - before_N <= SpanBoundaryHead.positions
        inside = np.clip(np.stack([before_N, after_N, at_N]), 0, len(example.row.tokens) - 1)
        return inside, whole_N & near_N

    def expected_positions(self, tokens: int) -> int:
        """As many as masked LM."""
        return self.masked.expected_positions(tokens)

    def metrics(self, loss: float, accuracy: float) -> dict[str, float]:
        """Perplexity and accuracy over the tokens that it predicts."""
        return {"boundary_perplexity": exp(min(loss, 700.0)), "boundary_accuracy": accuracy}
