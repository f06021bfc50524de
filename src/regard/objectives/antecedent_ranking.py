"""Antecedent ranking: the marginal likelihood of all right antecedents (Lee et al., 2017, eq. 9).

An example is the rows of a document and a table of its spans: the columns of the coreference head,
and the number of the cluster of each span. Of documents whose annotation is partial, spans of
unknown status are neither counted nor candidates.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.core.batch import Batch, Limits, PackedTokens, TokenRow
from regard.data.readers.examples import Mention
from regard.data.rows.coreference_rows import DocumentRows
from regard.models.coreference_head import COLUMNS, DOCUMENT, GENRES, ROW, CoreferenceHead
from regard.models.trunk_with_heads import Outputs
from regard.objectives.objective import Objective

NO_CLUSTER, UNKNOWN = -1, -2  # of a span that is no mention, or may be one
DocumentExample = tuple[Sequence[TokenRow], np.ndarray]


def span_table(
    document: DocumentRows,
    spans: Sequence[Mention] | np.ndarray,
    speakers: Sequence[str] = (),
    genre: str = "",
) -> np.ndarray:
    """The columns of the coreference head for spans of words of a document."""
    spans_N2 = np.asarray(spans, np.int64).reshape(-1, 2)
    first_N, last_N = (spans_N2 - [document.begin, document.begin + 1]).T
    names = {name: number for number, name in enumerate(dict.fromkeys(speakers), start=1) if name}
    speaker_N = [names.get(speakers[start], 0) if speakers else 0 for start in spans_N2[:, 0]]
    genre_N = np.full(len(spans_N2), 1 + GENRES.index(genre) if genre in GENRES else 0)
    places = document.places
    columns = (places[first_N, 0], places[first_N, 1], places[last_N, 2], last_N - first_N)
    return np.column_stack([*columns, np.zeros_like(genre_N), speaker_N, genre_N]).astype(np.int64)


def pack_spans(tables: Sequence[np.ndarray], rows: Sequence[int]) -> Tensor:
    """Spans of several documents, as the coreference head reads them, with ``rows`` rows each."""
    packed = []
    for number, (table, before) in enumerate(
        zip(tables, accumulate(rows, initial=0), strict=False)
    ):
        spans_NC = table[:, : len(COLUMNS)].copy()
        spans_NC[:, ROW] += before
        spans_NC[:, DOCUMENT] = number
        packed.append(spans_NC)
    return torch.from_numpy(np.concatenate([np.zeros((0, len(COLUMNS)), np.int64), *packed]))


@dataclass(frozen=True)
class AntecedentRanking(Objective[DocumentExample, np.ndarray]):
    """Coreference objective: -log of the probability of right antecedents; mean over documents.

    With ``singletons``, binary cross-entropy of the mention scores of all spans is added: a span of
    any cluster is a mention, also one that is alone in it.
    """

    head: ClassVar[str] = CoreferenceHead.name
    singletons: bool = False

    def length(self, example: DocumentExample) -> tuple[int, ...]:
        return (sum(len(row.tokens) for row in example[0]),)

    def collate(self, examples: Sequence[DocumentExample], limits: Limits = None) -> Batch:
        rows, tables = ([*part] for part in zip(*examples, strict=True)) if examples else ([], [])
        inputs: PackedTokens = self.read([*chain(*rows)], limits)
        labels = np.concatenate([np.zeros(0, np.int64), *(table[:, -1] for table in tables)])
        spans_NC = pack_spans(tables, [*map(len, rows)])
        targets = {self.head: torch.from_numpy(labels)}
        return Batch(inputs, targets, self.weight_of(tables), positions={self.head: spans_NC})

    def loss(self, outputs: Outputs, batch: Batch) -> tuple[Tensor, Tensor]:
        logits_NA, labels_N = outputs.by_head[self.head], batch.targets[self.head]
        kept_N, at_NA, scores_N = (outputs.by_head[name] for name in CoreferenceHead.more_outputs)
        losses_N = marginal_losses(logits_NA, labels_N[kept_N], at_NA)
        loss = losses_N.sum()
        if not self.singletons:
            return loss, loss.detach()
        known_N = labels_N != UNKNOWN
        targets_N = (labels_N[known_N] >= 0).float()
        mentions = F.binary_cross_entropy_with_logits(scores_N[known_N], targets_N, reduction="sum")
        return loss + mentions, loss.detach()


def marginal_losses(logits_NA: Tensor, labels_N: Tensor, at_NA: Tensor) -> Tensor:
    """-log of the probability that each mention of known status has a right antecedent.

    The right one of a mention without any is "no antecedent", the first of its logits.
    """
    own_N1, theirs_NA = labels_N[:, None], labels_N[at_NA]
    logits_NA = logits_NA.masked_fill(F.pad(theirs_NA == UNKNOWN, (1, 0)), -torch.inf)
    possible_NA = logits_NA[:, 1:] > -torch.inf
    right_NA = (own_N1 == theirs_NA) & (own_N1 >= 0) & possible_NA
    right_NA = torch.cat([~right_NA.any(1, keepdim=True), right_NA], 1)
    known_N = labels_N != UNKNOWN
    logits_NA, right_NA = logits_NA[known_N], right_NA[known_N]
    return logits_NA.logsumexp(1) - logits_NA.masked_fill(~right_NA, -torch.inf).logsumexp(1)
