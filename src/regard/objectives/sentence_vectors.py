"""Contrastive objectives of sentence encoders: in-batch negatives, triplets, cosine regression.

An example is a group of texts: an anchor, a text of like meaning (positive), and perhaps texts of
another meaning (negatives). Each text is a row, pooled to one vector (Reimers & Gurevych, 2019,
arXiv:1908.10084). All losses are functions of cosines.

In-batch negatives take the texts of the other examples of a batch as negatives, so that large
batches teach more; texts that occur twice in a batch are not negatives of their own meaning. With
``chunk``, activations of only that many examples are in memory at once:
vectors are computed chunk by chunk without a graph, the loss is over all of them, and each chunk is
computed again for its gradient (gradient caching: Gao et al., 2021, arXiv:2101.06983, section 3.2).
Loss and gradient equal the whole batch's.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from math import isnan, nan
from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from regard.core.batch import IGNORED, Batch, Limits, PackedTokens, TokenRow, pack_texts
from regard.core.pytree import TensorTree
from regard.core.tape import NULL_TAPE, NullTape
from regard.layers.losses import smoothed_cross_entropy
from regard.models.row_pooling import RowPooling
from regard.models.trunk_with_heads import Outputs
from regard.objectives.label_losses import GroupObjective
from regard.objectives.objective import padded

TextGroup = tuple[Sequence[TokenRow], float]  # rows of the texts; their score, or NaN: not learned
TEXTS = "texts"  # targets of in-batch negatives: numbers (N, S) of texts, equal for equal texts


@dataclass(frozen=True, eq=False)
class TokenChunks(TensorTree):
    """Inputs that are encoded one after the other."""

    chunks: tuple[PackedTokens, ...]

    @property
    def real(self) -> int:
        """Number of tokens, without padding."""
        return sum(chunk.real for chunk in self.chunks)


@dataclass(frozen=True)
class SentenceObjective(GroupObjective[float]):
    """Base class of objectives of groups of ``texts`` texts, each pooled to one vector."""

    head: ClassVar[str] = "vectors"
    least_texts: ClassVar[int] = 2
    most_texts: ClassVar[int | None] = None
    has_scores: ClassVar[bool] = False  # whether examples have scores
    texts: int = 2
    pooling: RowPooling = field(default_factory=RowPooling)
    chunk: int = 0  # examples that are encoded at once; 0: all

    @property
    def chunked(self) -> bool:
        return self.chunk > 0

    @property
    def rows_per_example(self) -> int:
        return self.texts

    def weight_of(self, targets: Sequence[float]) -> float:
        return sum(not isnan(score) for score in targets)

    def collate(self, examples: Sequence[TextGroup], limits: Limits = None) -> Batch:
        if not self.chunked:
            return super().collate(examples, limits)
        groups, scores = zip(*examples, strict=True) if examples else ((), ())
        starts = range(0, len(groups), self.chunk)
        parts = [[*chain(*groups[start : start + self.chunk])] for start in starts]
        targets_N = torch.tensor(scores, dtype=torch.float32)
        chunks = TokenChunks(tuple(pack_texts(rows) for rows in parts))
        return Batch(chunks, {self.head: targets_N}, self.weight_of(scores))

    def pack_targets(
        self, targets: Sequence[float], inputs: PackedTokens, limits: Limits
    ) -> Tensor:
        scores_N = torch.tensor(targets, dtype=torch.float32)
        return padded(scores_N, len(targets) if limits is None else limits.rows, nan)

    def __call__(
        self, model: nn.Module, batch: Batch, tape: NullTape = NULL_TAPE
    ) -> tuple[Tensor, ...]:
        if not self.chunked:
            return super().__call__(model, batch, tape)

        def encode(inputs: PackedTokens) -> Tensor:
            return self.pooling(model(inputs, tape=tape).encoded)

        chunks = batch.inputs.chunks
        vectors = [checkpoint(encode, inputs, use_reentrant=False) for inputs in chunks]
        return self.loss_of_vectors(torch.cat(vectors), batch)

    def loss(self, outputs: Outputs, batch: Batch) -> tuple[Tensor, Tensor]:
        return self.loss_of_vectors(self.pooling(outputs.encoded), batch)

    def loss_of_vectors(self, vectors_BD: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """(loss, its value) from a vector for each row, summed over the examples of the batch."""
        scores_N = batch.targets[self.head]
        rows_BD = vectors_BD[: self.texts * len(scores_N)].float()
        units_NSD = F.normalize(rows_BD, dim=-1).unflatten(0, (len(scores_N), self.texts))
        loss = self.contrast(units_NSD.transpose(0, 1), scores_N, batch)
        return loss, loss.detach()

    def contrast(self, units_SND: Tensor, scores_N: Tensor, batch: Batch) -> Tensor:
        """Loss of vectors of length 1, summed over examples whose score is not NaN."""
        raise NotImplementedError


@dataclass(frozen=True)
class InBatchNegatives(SentenceObjective):
    """InfoNCE objective: find the positive of an anchor among all texts of the batch.

    The loss of an anchor a with the positive p is -log(exp(s·cos(a, p)) / Σ_t exp(s·cos(a, t))),
    with s the ``scale`` and t the positives and negatives of all examples (van den Oord et al.,
    2018, arXiv:1807.03748, equation 4; Henderson et al., 2017, arXiv:1705.00652, section 4.4). If
    ``symmetric``, it is the mean of that and of the loss that finds the anchor of a positive.

    A text that equals the anchor or the positive of an example is not a negative of it, nor is the
    positive of an anchor that does: t leaves these out.
    """

    scale: float = 20.0
    symmetric: bool = False

    def collate(self, examples: Sequence[TextGroup], limits: Limits = None) -> Batch:
        batch = super().collate(examples, limits)
        rows, scores_N = chain.from_iterable(rows for rows, _ in examples), batch.targets[self.head]
        numbers_NS = torch.tensor(text_numbers(rows), dtype=torch.int64).reshape(-1, self.texts)
        texts = {TEXTS: padded(numbers_NS, len(scores_N), -1)}
        return replace(batch, targets={**batch.targets, **texts})

    def contrast(self, units_SND: Tensor, scores_N: Tensor, batch: Batch) -> Tensor:
        anchors_ND, positives_ND = units_SND[:2]
        equal_SNN = self._equal(batch.targets[TEXTS])
        loss = self._ranked(anchors_ND, units_SND[1:], scores_N, equal_SNN)
        if not self.symmetric:
            return loss
        backward = self._ranked(positives_ND, anchors_ND[None], scores_N, equal_SNN[:1])
        return (loss + backward) / 2

    def _equal(self, texts_NS: Tensor) -> Tensor:
        """Whether text s of example m is no negative of example n, at [s - 1, n, m]."""
        own_N1P, every_S1M1 = texts_NS[:, None, :2], texts_NS.T[:, None, :, None]
        equal_SNM = (every_S1M1 == own_N1P).any(-1)
        pairs_NM = equal_SNM[:2].any(0).fill_diagonal_(False)
        return torch.cat([pairs_NM[None], equal_SNM[2:]])

    def _ranked(
        self, queries_ND: Tensor, texts_SND: Tensor, scores_N: Tensor, equal_SNN: Tensor
    ) -> Tensor:
        """Cross-entropy of the n-th of the first texts for query n, among all texts but equals."""
        missing_N = scores_N.isnan()
        logits_NT = self.scale * queries_ND @ texts_SND.flatten(0, 1).T
        lowest = torch.finfo(logits_NT.dtype).min
        excluded_NT = (equal_SNN | missing_N).transpose(0, 1).flatten(1)
        logits_NT = logits_NT.masked_fill(excluded_NT, lowest)
        targets_N = torch.arange(len(scores_N), device=scores_N.device)
        return smoothed_cross_entropy(logits_NT, targets_N.masked_fill(missing_N, IGNORED))[0]


def text_numbers(rows: Iterable[TokenRow]) -> list[int]:
    """A number for each row, equal for rows of equal tokens."""
    numbers: dict[bytes, int] = {}
    keys = (np.asarray(row.tokens, dtype=np.int64).tobytes() for row in rows)
    return [numbers.setdefault(key, len(numbers)) for key in keys]


@dataclass(frozen=True)
class Triplets(SentenceObjective):
    """Triplet objective: max(0, cos(a, n) - cos(a, p) + ``margin``) (Schroff et al., 2015,
    arXiv:1503.03832, equation 2, with cosine distances); the mean over the negatives n.
    """

    least_texts = 3
    margin: float = 0.5

    def contrast(self, units_SND: Tensor, scores_N: Tensor, batch: Batch) -> Tensor:
        cosines_SN = (units_SND[:1] * units_SND[1:]).sum(-1)
        losses_SN = F.relu(cosines_SN[1:] - cosines_SN[:1] + self.margin)
        return (losses_SN.mean(0) * ~scores_N.isnan()).sum()


@dataclass(frozen=True)
class CosineRegression(SentenceObjective):
    """Regression objective of pairs with a score: (cos(a, b) - score)² (Reimers & Gurevych, 2019,
    section 3).
    """

    most_texts, has_scores = 2, True

    def contrast(self, units_SND: Tensor, scores_N: Tensor, batch: Batch) -> Tensor:
        errors_N = (units_SND[0] * units_SND[1]).sum(-1) - scores_N.nan_to_num()
        return (errors_N**2 * ~scores_N.isnan()).sum()
