"""Masked language modelling (Devlin et al., 2018, section 3.1, task 1).

Of the tokens of a row, 15% are chosen; of these 80% become the mask, 10% a random token, 10% stay.
The model names the original token at each chosen position. Which tokens are chosen is drawn anew in
each epoch (Liu et al., 2019: dynamic masking), by the key (seed, epoch, number of the row).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, exp
from typing import Any

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from regard.data.mlm_masking import TokenMasker
from regard.ground.batch import IGNORED, BatchLimits, tokens_of
from regard.ground.config import Config
from regard.models.facts import MLMHead
from regard.objectives.rows import Annotate, AnnotatedRow, RowObjective


class MaskedLMConfig(Config):
    """``rate`` is the share of tokens that are chosen, by ``whole_words`` or each on its own."""

    rate: float = Field(0.15, gt=0, le=0.5)
    """The share of tokens that are predicted."""
    whole_words: bool = False
    """Choose whole words, not single tokens."""


@dataclass(frozen=True)
class MaskedLM(RowObjective):
    """Cross-entropy of the original tokens, the mean over the chosen positions of a step."""

    name, config, head = "masked-lm", MaskedLMConfig, MLMHead.name
    rate: float = 0.15
    whole_words: bool = False
    smoothing: float = 0.0

    @classmethod
    def of(cls, config: MaskedLMConfig, smoothing: float) -> "MaskedLM":
        """As a recipe says."""
        return cls(config.rate, config.whole_words, smoothing)

    def head_facts(self) -> MLMHead:
        """Tied to the token vectors."""
        return MLMHead()

    def annotator(self, tokenizer: Any) -> Annotate:
        """Chosen tokens are masked in the row; targets are the original ones."""
        begins = ~tokenizer.continues if self.whole_words else None
        special = np.isin(np.arange(len(tokenizer.words)), list(tokenizer.special))
        masker = TokenMasker(tokenizer.mask, special, begins, self.rate)

        def annotate(
            rows: Sequence[AnnotatedRow], numbers: np.ndarray, key: tuple[int, ...]
        ) -> list[AnnotatedRow]:
            lengths = np.array([len(example.row.tokens) for example in rows], np.int64)
            tokens = np.concatenate([example.row.tokens for example in rows])
            masked = masker.draw_all(tokens, lengths, numbers, key)
            ends = np.cumsum(lengths)
            counts = np.searchsorted(masked.places, ends)
            row_of = np.searchsorted(ends, masked.places, side="right")
            split = zip(
                rows,
                np.split(masked.tokens, ends[:-1]),
                np.split(masked.places - (ends - lengths)[row_of], counts[:-1]),
                np.split(masked.originals, counts[:-1]),
                strict=True,
            )
            return [self._annotated(*parts) for parts in split]

        return annotate

    def _annotated(
        self, example: AnnotatedRow, tokens: np.ndarray, at: np.ndarray, originals: np.ndarray
    ) -> AnnotatedRow:
        return AnnotatedRow(
            example.row._replace(tokens=tokens),
            {**example.positions, self.head: at},
            {**example.targets, self.head: originals},
        )

    def positions(self, tokens: int) -> int:
        """Those that are chosen."""
        return round(self.rate * tokens)

    def weight(self, example: AnnotatedRow) -> float:
        """Its chosen positions."""
        return len(example.positions[self.head])

    def most_positions(self, limits: BatchLimits) -> int:
        """The most positions of a batch of fixed shape.

        Rounding gives a row half a position at most; a row of one word and two special tokens gets
        a whole one.
        """
        extra = max(0.5, 1 - 3 * self.rate)
        return min(limits.tokens, ceil(self.rate * limits.tokens + extra * limits.rows))

    def targets(
        self,
        examples: Sequence[AnnotatedRow],
        starts: np.ndarray,
        rows: int,
        limits: BatchLimits | None,
    ) -> tuple[Tensor, Tensor]:
        """Chosen positions and original tokens; with a ``limits``, as many as there can be."""
        positions = [
            np.asarray(example.positions[self.head]) + start
            for example, start in zip(examples, starts, strict=True)
        ]
        count = sum(map(len, positions))
        size = count if limits is None else self.most_positions(limits)
        if count > size:
            raise ValueError(f"{count} masked positions in a batch that can hold {size}")
        positions_N, targets_N = torch.zeros(size, dtype=torch.int64), torch.full((size,), IGNORED)
        positions_N[:count] = tokens_of(positions)
        targets_N[:count] = tokens_of([example.targets[self.head] for example in examples])
        return positions_N, targets_N

    def figures(self, loss: float, accuracy: float) -> dict[str, float]:
        """Perplexity, and the share of tokens that are named correctly."""
        return {"perplexity": exp(min(loss, 700.0)), "accuracy": accuracy}
