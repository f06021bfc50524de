"""Spans and their boundaries (Joshi et al., 2019, section 3).

Masked LM over spans of words of geometric length, with a second prediction for each masked token,
from the states of the two tokens around its span and its place in the span. The loss is the sum of
both. As in the code of the paper, spans that touch are merged, and the boundary predicts the first
20 tokens of a span, unless it is beside a special token.
"""

from dataclasses import dataclass, field
from math import exp
from typing import cast

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from regard.core.batch import IGNORED, pack_ids
from regard.core.config import Config
from regard.data.rows.mlm_masking import span_starts
from regard.models.heads import AnyHead
from regard.models.papers.spanbert import SpanBoundaryHead
from regard.objectives.masked_lm import MaskedLM
from regard.objectives.objective import padded
from regard.objectives.rows import Annotate, AnnotatedRow, RowBatch, RowObjective, Rows
from regard.text.tokenizers.encoder_tokenizer import EncoderTokenizer
from regard.text.tokenizers.row_tokenizer import RowTokenizer


class SpanBoundaryConfig(Config):
    """The table ``[objective.span-boundary]``."""

    rate: float = Field(0.15, gt=0, le=0.5)
    """The share of tokens that are predicted."""
    spans: float = Field(0.2, gt=0, lt=1)
    """The parameter of the geometric distribution of the lengths of spans, in words."""


@dataclass(frozen=True)
class SpanBoundary(RowObjective):
    """Span-boundary objective: masked tokens from the boundary of their span; mean over tokens."""

    name, config, head = "span-boundary", SpanBoundaryConfig, SpanBoundaryHead.name
    masked: MaskedLM = field(default_factory=lambda: MaskedLM(spans=0.2))

    @classmethod
    def from_config(cls, config: SpanBoundaryConfig, smoothing: float) -> "SpanBoundary":
        return cls(MaskedLM(config.rate, smoothing=smoothing, spans=config.spans))

    @property
    def smoothing(self) -> float:  # type: ignore[override]
        """The label smoothing of both predictions."""
        return self.masked.smoothing

    @property
    def members(self) -> tuple[RowObjective, ...]:
        return (self.masked, self)

    def make_head(self) -> SpanBoundaryHead:
        return SpanBoundaryHead()

    def make_heads(self) -> tuple[AnyHead, ...]:
        return (self.masked.make_head(), self.make_head())

    def annotator(self, tokenizer: RowTokenizer) -> Annotate:
        special = np.fromiter(cast(EncoderTokenizer, tokenizer).special, np.int64)
        return lambda rows, indices, key: self._with_boundaries(rows, special)

    def _with_boundaries(self, rows: Rows, special: np.ndarray) -> list[AnnotatedRow]:
        """Add (before the span, after the span, itself) and target of each chosen token to rows.

        Spans at an end of the text, and tokens beyond the first 20 of a span, are ignored.
        """
        chosen = [np.asarray(example.positions[self.masked.head]) for example in rows]
        counts_B = np.array([*map(len, chosen)])
        row_N, at_N = np.repeat(np.arange(len(rows)), counts_B), np.concatenate(chosen)
        lengths_B = np.array([len(example.row.tokens) for example in rows])
        end_N, begin_N = lengths_B[row_N], (np.cumsum(lengths_B) - lengths_B)[row_N]
        first_N = span_starts(at_N, row_N)
        last_N = np.searchsorted(first_N, first_N, side="right") - 1
        before_N, after_N = at_N[first_N] - 1, at_N[last_N] + 1
        inside_T = ~np.isin(np.concatenate([example.row.tokens for example in rows]), special)
        whole_N = (before_N >= 0) & (after_N < end_N)
        for at in (before_N, after_N):
            whole_N &= inside_T[begin_N + np.clip(at, 0, end_N - 1)]
        near_N = at_N - before_N <= SpanBoundaryHead.positions
        originals_N = np.concatenate([example.targets[self.masked.head] for example in rows])
        targets_N = np.where(whole_N & near_N, originals_N, IGNORED)
        positions_3N = np.clip(np.stack([before_N, after_N, at_N]), 0, end_N - 1)
        borders = np.cumsum(counts_B)[:-1]
        parts = np.split(positions_3N, borders, axis=1), np.split(targets_N, borders)
        return [
            example.annotated(self.head, positions, targets)
            for example, positions, targets in zip(rows, *parts, strict=True)
        ]

    def weight(self, example: AnnotatedRow) -> float:
        return int(np.count_nonzero(example.targets[self.head] != IGNORED))

    def collate_targets(self, batch: RowBatch) -> tuple[Tensor, Tensor]:
        """Return (before, after, itself) for each chosen token, and its original token.

        With ``limits``, both are padded to the fixed size of masked LM.
        """
        targets_N, positions = pack_ids(batch.targets(self.head)), batch.positions(self.head)
        limits = batch.limits
        size = len(targets_N) if limits is None else self.masked.max_positions(limits)
        columns = (pack_ids([at[row] for at in positions]) for row in range(3))
        positions_3N = torch.stack([padded(column_N, size, 0) for column_N in columns])
        return positions_3N, padded(targets_N, size, IGNORED)

    def expected_positions(self, tokens: int) -> int:
        return self.masked.expected_positions(tokens)

    def metrics(self, loss: float, accuracy: float) -> dict[str, float]:
        return {"boundary_perplexity": exp(min(loss, 700.0)), "boundary_accuracy": accuracy}
