"""Labels of tokens as an objective: of each word by its first piece; words that begin and end it.

A goal is given for each token of a row; most tokens have none.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan

import numpy as np
import torch
from torch import Tensor, nn

from regard.ground.batch import (
    IGNORED,
    Batch,
    BatchLimits,
    Ids,
    PackedTokens,
    TokenRow,
    pack_rows,
    tokens_of,
)
from regard.ground.tape import NULL_TAPE, NullTape
from regard.objectives.labelled import class_weights_of
from regard.parts.losses import smoothed_cross_entropy


class OfRows:
    """What objectives over the tokens of a row have in common."""

    def length(self, example: tuple[TokenRow, object]) -> tuple[int, ...]:
        """Tokens of the row."""
        return (len(example[0].tokens),)

    def read(self, rows: Sequence[TokenRow], limits: BatchLimits | None = None) -> PackedTokens:
        """The rows alone."""
        return pack_rows(rows, limits)


@dataclass(frozen=True)
class Tagged(OfRows):
    """Cross-entropy over the tags of words; the loss of a step is the mean over its words."""

    smoothing: float = 0.0
    weights: tuple[float, ...] | None = None

    def weight(self, example: tuple[TokenRow, Ids]) -> float:
        """How much its words count."""
        goals = np.asarray(example[1])
        goals = goals[goals != IGNORED]
        return len(goals) if self.weights is None else float(np.take(self.weights, goals).sum())

    def collate(
        self, examples: Sequence[tuple[TokenRow, Ids]], limits: BatchLimits | None = None
    ) -> Batch:
        """A batch of rows; with a ``limits``, of fixed shape."""
        rows = self.read([row for row, _ in examples], limits)
        goals_T = tokens_of([goals for _, goals in examples], limits, fill=IGNORED)
        weights_T = class_weights_of(goals_T, self.weights)
        return Batch(rows, goals_T, sum(map(self.weight, examples)), weights_T=weights_T)

    def __call__(
        self, model: nn.Module, batch: Batch, tape: NullTape = NULL_TAPE
    ) -> tuple[Tensor, Tensor]:
        """Sums over the batch: (loss, negative log-likelihood)."""
        logits_TV = model(batch.target.tokens_T, batch.target.layout, tape=tape)
        return smoothed_cross_entropy(logits_TV, batch.goals_T, self.smoothing, batch.weights_T)


class TaggedNumbers(OfRows):
    """A number for each word: squared distance, the mean over the words of a step."""

    def weight(self, example: tuple[TokenRow, Sequence[float]]) -> float:
        """How many words have a number."""
        return float(np.isfinite(example[1]).sum())

    def collate(
        self,
        examples: Sequence[tuple[TokenRow, Sequence[float]]],
        limits: BatchLimits | None = None,
    ) -> Batch:
        """A batch of rows; with a ``limits``, of fixed shape."""
        rows = self.read([row for row, _ in examples], limits)
        goals_T = torch.full((rows.layout.tokens,), nan)
        numbers = np.concatenate([np.zeros(0), *(goals for _, goals in examples)])
        goals_T[: rows.real] = torch.from_numpy(numbers)
        return Batch(rows, goals_T, sum(map(self.weight, examples)))

    def __call__(
        self, model: nn.Module, batch: Batch, tape: NullTape = NULL_TAPE
    ) -> tuple[Tensor, Tensor]:
        """The sum over the batch, twice: there is no likelihood but this."""
        said_T = model(batch.target.tokens_T, batch.target.layout, tape=tape)[:, 0].float()
        counts_T = ~batch.goals_T.isnan()
        loss = ((said_T - batch.goals_T.nan_to_num()) ** 2 * counts_T).sum()
        return loss, loss.detach()


class Spans(OfRows):
    """Where an answer begins and where it ends: two softmaxes over the tokens of each row.

    The loss of a row is the mean of the two. The first token stands for "no answer here".
    """

    def weight(self, example: tuple[TokenRow, tuple[int, int]]) -> float:
        """Every row counts the same."""
        return 1

    def collate(
        self,
        examples: Sequence[tuple[TokenRow, tuple[int, int]]],
        limits: BatchLimits | None = None,
    ) -> Batch:
        """A batch of rows; with a ``limits``, of fixed shape."""
        rows = self.read([row for row, _ in examples], limits)
        goals_BV = torch.full((rows.layout.rows, 2), IGNORED)
        goals_BV[: len(examples)] = torch.tensor([ends for _, ends in examples]).view(-1, 2)
        return Batch(rows, goals_BV, len(examples))

    def __call__(
        self, model: nn.Module, batch: Batch, tape: NullTape = NULL_TAPE
    ) -> tuple[Tensor, Tensor]:
        """Sums over the batch: (loss, negative log-likelihood)."""
        layout = batch.target.layout
        logits_TV = model(batch.target.tokens_T, layout, tape=tape)
        padded_BLV = layout.pad(logits_TV.float())
        lowest = torch.finfo(torch.float32).min
        padded_BLV = padded_BLV.masked_fill(~layout.real_BL[:, :, None], lowest)
        both = padded_BLV.transpose(1, 2).flatten(0, 1)  # begins and ends in turn
        loss, likelihood = smoothed_cross_entropy(both, batch.goals_T.flatten())
        return loss / 2, likelihood / 2


@dataclass(frozen=True)
class Chosen:
    """One of ``choices`` rows is right: a softmax over what the model says of each."""

    choices: int

    def length(self, example: tuple[Sequence[TokenRow], int]) -> tuple[int, ...]:
        """Tokens of each choice."""
        return tuple(len(row.tokens) for row in example[0])

    def weight(self, example: tuple[Sequence[TokenRow], int]) -> float:
        """Every question counts the same."""
        return 1

    def collate(
        self, examples: Sequence[tuple[Sequence[TokenRow], int]], limits: BatchLimits | None = None
    ) -> Batch:
        """A batch of rows, the choices of a question side by side."""
        rows = self.read([row for choices, _ in examples for row in choices], limits)
        goals_B = torch.full((len(examples) if limits is None else limits.rows,), IGNORED)
        goals_B[: len(examples)] = torch.tensor([label for _, label in examples])
        return Batch(rows, goals_B, len(examples))

    def read(self, rows: Sequence[TokenRow], limits: BatchLimits | None = None) -> PackedTokens:
        """The rows alone; a budget is that of each choice."""
        if limits is not None:
            all_choices = self.choices * limits.tokens, self.choices * limits.rows
            limits = BatchLimits(*all_choices, limits.longest)
        return pack_rows(rows, limits)

    def __call__(
        self, model: nn.Module, batch: Batch, tape: NullTape = NULL_TAPE
    ) -> tuple[Tensor, Tensor]:
        """Sums over the batch: (loss, negative log-likelihood)."""
        said_B = model(batch.target.tokens_T, batch.target.layout, tape=tape)[:, 0]
        questions = batch.goals_T.shape[0]
        logits_BV = said_B[: questions * self.choices].unflatten(0, (questions, self.choices))
        return smoothed_cross_entropy(logits_BV, batch.goals_T)
