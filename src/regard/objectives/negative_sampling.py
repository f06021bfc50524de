"""Negative sampling: words in their context against random words (Melamud et al., 2016, section
2.2).

For a word w with context vector c, and words w_1 to w_k drawn by their frequency to a power α, the
loss is -log σ(c·w) - Σ_i log σ(-c·w_i) (word2vec: Mikolov et al., 2013). Each sentence is a row.
Unknown words are read, but neither predicted nor drawn. Draws depend on (seed, epoch, row).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from regard.core.batch import IGNORED, Batch
from regard.core.config import Config
from regard.core.errors import BadInput
from regard.data.counter_rng import streams, uniform
from regard.data.rows.documents import Documents
from regard.data.rows.row_plans import PlanRows, positions_in_rows, sentence_rows
from regard.models.papers.context2vec import ContextHead
from regard.models.trunk_with_heads import Outputs, TrunkWithHeads
from regard.objectives.objective import padded
from regard.objectives.rows import Annotate, AnnotatedRow, RowBatch, RowObjective, Rows
from regard.text.templates import RowBuilder
from regard.text.tokenizers.row_tokenizer import RowTokenizer

AROUND = 3  # positions of a word: before it, after it, its own


class NegativeSamplingConfig(Config):
    """The table ``[objective.negative-sampling]``."""

    negatives: int = Field(10, ge=1)
    """The number of words that are drawn for each word of a text."""
    power: float = Field(0.75, ge=0, le=1)
    """Words are drawn in proportion to their frequency to this power."""


@dataclass(frozen=True)
class NegativeSampling(RowObjective):
    """Negative-sampling objective: each word against drawn words; the loss is the mean over words.

    ``counts_V`` are the counts of all words in the training documents.
    """

    name, config, head = "negative-sampling", NegativeSamplingConfig, ContextHead.name
    makes_rows, smooths = True, False
    negatives: int = 10
    power: float = 0.75
    smoothing: float = 0.0
    counts_V: np.ndarray | None = field(default=None, compare=False, repr=False)

    def make_head(self) -> ContextHead:
        return ContextHead()

    def check(self, facts: TrunkWithHeads) -> None:
        stack = facts.trunk.stack
        if not stack.bidirectional or stack.depth > 1:
            fault = "needs one bidirectional recurrent layer: higher layers see the word"
            raise BadInput(f"objective.negative-sampling: {fault}")
        if facts.trunk.ids_per_token:
            fault = "this model reads characters; only models with one id per word are supported"
            raise BadInput(f"objective.negative-sampling: {fault}")

    def rows(self, documents: Documents, template: RowBuilder, longest: int, seed: int) -> PlanRows:
        plan = sentence_rows(documents, template.frame(1), longest)
        return lambda epoch: plan

    def count_words(self, documents: Sequence[Documents], vocab: int) -> "NegativeSampling":
        counts_V = np.zeros(vocab, np.int64)
        for row in chain.from_iterable(corpus.rows for corpus in documents):
            counts_V += np.bincount(row, minlength=vocab)
        return replace(self, counts_V=counts_V)

    def annotator(self, tokenizer: RowTokenizer) -> Annotate:
        assert self.counts_V is not None
        weights_V = self.counts_V.astype(np.float64) ** self.power * (self.counts_V > 0)
        weights_V[tokenizer.unk] = 0.0
        if not weights_V.any():
            raise BadInput("objective.negative-sampling: all words of the documents are unknown")
        shares_V = np.cumsum(weights_V) / weights_V.sum()

        def annotate(rows: Rows, indices: np.ndarray, key: tuple[int, ...]) -> list[AnnotatedRow]:
            lengths_B = np.array([len(example.row.tokens) for example in rows])
            tokens_T = np.concatenate([example.row.tokens for example in rows], dtype=np.int64)
            row_T = np.repeat(np.arange(len(rows)), lengths_B)
            position_T = positions_in_rows(lengths_B)
            inside_T = (position_T > 0) & (position_T < lengths_B[row_T] - 1)
            at_N = np.flatnonzero(inside_T & (tokens_T != tokenizer.unk))
            stream_N1 = streams(key, indices)[row_T[at_N], None]
            numbers_NK = position_T[at_N, None] * self.negatives + np.arange(self.negatives)
            drawn_NK = np.searchsorted(shares_V, uniform(stream_N1, numbers_NK), side="right")
            around = position_T[at_N] - 1, position_T[at_N] + 1, position_T[at_N]
            read_PN = np.stack([*around, tokens_T[at_N], *drawn_NK.T])
            of_rows = np.split(read_PN, np.cumsum(np.bincount(row_T[at_N], minlength=len(rows))), 1)
            return [
                example._replace(positions={**example.positions, self.head: read_PN})
                for example, read_PN in zip(rows, of_rows, strict=False)
            ]

        return annotate

    def weight(self, example: AnnotatedRow) -> float:
        return np.shape(example.positions[self.head])[1]

    def collate_targets(self, batch: RowBatch) -> tuple[Tensor, Tensor]:
        parts = [np.asarray(example.positions[self.head]) for example in batch.examples]
        count = sum(part.shape[1] for part in parts)
        size = count if batch.limits is None else batch.limits.tokens
        read_PN = torch.zeros(AROUND + 1 + self.negatives, size, dtype=torch.int64)
        if count:
            shifts = np.repeat(batch.starts, [part.shape[1] for part in parts])
            read_PN[:, :count] = torch.from_numpy(np.concatenate(parts, axis=1))
            read_PN[:AROUND, :count] += torch.from_numpy(shifts)
        return read_PN, padded(torch.zeros(count, dtype=torch.int64), size, IGNORED)

    def loss(self, outputs: Outputs, batch: Batch) -> tuple[Tensor, Tensor]:
        logits_NK, real_N = outputs.by_head[self.head].float(), batch.targets[self.head] != IGNORED
        losses_N = F.softplus(-logits_NK[:, 0]) + F.softplus(logits_NK[:, 1:]).sum(1)
        loss = (losses_N * real_N).sum()
        return self.loss_weight * loss, loss.detach()

    def metrics(self, loss: float, accuracy: float) -> dict[str, float]:
        return {"accuracy": accuracy}
