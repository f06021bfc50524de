"""Objectives of pre-training, all over the same rows of tokens, each with a head of its own.

From documents to a loss: one objective makes rows (``rows``), each may annotate them with targets
(``annotator``), examples become a batch (``collate``), and one forward pass gives the logits of all
heads, from which each objective computes its ``loss``. ``Sum`` combines several.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import exp
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from regard.data.datasets.documents import DocumentDataset, RowStreams
from regard.data.pretraining.documents import Documents
from regard.data.pretraining.row_plans import PlanRows, full_rows
from regard.data.sampler import Streams
from regard.ground.batch import IGNORED, Batch, BatchLimits, Ids, Limits, TokenRow, pack_rows
from regard.ground.config import Config
from regard.models.folders.loaded_model import LoadedModel
from regard.models.heads import AnyHead
from regard.models.trunk_with_heads import Outputs, TrunkWithHeads
from regard.objectives.objective import Objective
from regard.parts.losses import smoothed_cross_entropy
from regard.text.templates import RowBuilder
from regard.text.tokenizers.row_tokenizer import RowTokenizer

RowLengths = Sequence[tuple[int, ...]]


class AnnotatedRow(NamedTuple):
    """A row; by head, the targets and the positions in the row that they belong to.

    A head that reads whole rows has a target and no positions.
    """

    row: TokenRow
    positions: dict[str, Ids]
    targets: dict[str, Any]


Rows = Sequence[AnnotatedRow]


class RowBatch(NamedTuple):
    """Rows that are put end to end, and the token at which each starts.

    With ``limits`` the batch has a fixed shape, of more ``rows`` than there are examples.
    """

    examples: Rows
    starts: np.ndarray
    rows: int
    limits: Limits

    def positions(self, head: str) -> list[np.ndarray]:
        """The positions of a head in each row, counted from the beginning of the batch."""
        pairs = zip(self.examples, self.starts, strict=True)
        return [np.asarray(example.positions[head]) + start for example, start in pairs]

    def targets(self, head: str) -> list[Any]:
        """The targets of a head in each row."""
        return [example.targets[head] for example in self.examples]


Annotate = Callable[[Rows, np.ndarray, tuple[int, ...]], list[AnnotatedRow]]
"""(rows, their indices in the dataset, the key (seed, epoch)) → rows with targets."""


class RowObjective(Objective[AnnotatedRow, object]):
    """An objective over rows of documents.

    ``name`` is that of its table in recipes (``[objective.NAME]``), ``config`` the type of that
    table. At most one objective of a ``Sum`` ``makes_rows``; by default rows are full of sentences.
    """

    name: ClassVar[str]
    config: ClassVar[type[Config]]
    makes_rows: ClassVar[bool] = False
    whole_texts: ClassVar[bool] = False  # whether documents are read as they are, not by sentence
    orders_rows: ClassVar[bool] = False  # whether it gives rows factorization orders
    scores_texts: ClassVar[bool] = False  # whether its model gives texts a probability
    smooths: ClassVar[bool] = True  # whether label smoothing applies
    dev_size: ClassVar[int] = 3
    smoothing: float  # label smoothing
    loss_weight: float = 1.0  # beside the losses of other objectives

    @classmethod
    def from_config(cls, config: Any, smoothing: float) -> "RowObjective":
        """The objective with the settings of a recipe."""
        raise NotImplementedError

    @property
    def members(self) -> "tuple[RowObjective, ...]":
        """The objectives that it consists of, each with a loss of its own: by default itself."""
        return (self,)

    def extend(
        self, facts: TrunkWithHeads, fit_heads: Callable[[TrunkWithHeads], TrunkWithHeads]
    ) -> Any:
        """The model that is trained: by default as it is, else a ``Joint`` with another.

        ``fit_heads`` gives heads the form that the paper has.
        """
        return facts

    @property
    def reads_all_tokens(self) -> frozenset[str]:
        """Heads that must read all tokens because of it, also if they would read some only."""
        return frozenset()

    def open(self, data: Path, longest: int) -> LoadedModel | None:
        """Read the model that it needs, if it needs one: its vocabulary is the student's, too."""
        return None

    def teach(self, batch: Batch) -> dict[str, Tensor]:
        """The predictions of a teacher, which the loss reads as targets, by name."""
        return {}

    def extra_flops(
        self, facts: TrunkWithHeads, lengths: RowLengths, positions: Mapping[str, int]
    ) -> float:
        """Operations of one step beside those of the model over rows of these lengths."""
        return 0.0

    @property
    def carries_state(self) -> bool:
        """Whether rows are read in streams, each with a state that is carried from row to row."""
        return False

    def initial_state(self, model: nn.Module, streams: int) -> object:
        """The state of ``streams`` streams at their beginning."""
        raise NotImplementedError

    def train_streams(self, rows: DocumentDataset, limits: BatchLimits) -> Streams:
        """Training rows in streams, if it carries state."""
        return RowStreams.of(rows, limits)

    def dev_streams(self, rows: DocumentDataset, limits: BatchLimits) -> Streams | None:
        """Development rows in streams, if their state is carried as well."""
        return None

    @property
    def joins_documents(self) -> bool:
        """Whether tokens may see those of documents before theirs."""
        return True

    def make_head(self) -> AnyHead:
        """The head that it trains."""
        raise NotImplementedError

    def make_heads(self) -> tuple[AnyHead, ...]:
        """The heads of the model that it trains."""
        return (self.make_head(),)

    def check(self, facts: TrunkWithHeads) -> None:
        """Raise an error if the model cannot be trained with it."""

    def check_vocabulary(self, size: int) -> None:
        """Raise an error if so many words, or pieces of them, are too few."""

    def rows(self, documents: Documents, template: RowBuilder, longest: int, seed: int) -> PlanRows:
        """Rows of at most ``longest`` tokens; by default filled with consecutive sentences."""
        plan = full_rows(documents, template.frame(1), longest)
        return lambda epoch: plan

    def count_words(self, documents: Documents, vocab: int) -> "RowObjective":
        """The same, with what it must know of the training documents: by default nothing."""
        return self

    def annotator(self, tokenizer: RowTokenizer) -> Annotate | None:
        """A function that adds targets to rows; None if ``rows`` already come with them."""
        return None

    def expected_positions(self, tokens: int) -> int | None:
        """How many of this many tokens its head reads; None if all, or none (it reads rows)."""
        return None

    def length(self, example: AnnotatedRow) -> tuple[int, ...]:
        return (len(example.row.tokens),)

    def collate(self, examples: Rows, limits: Limits = None) -> Batch:
        return collate_rows((self,), examples, limits)

    def collate_targets(self, batch: RowBatch) -> tuple[Tensor | None, Tensor | None]:
        """(positions, targets) of a batch; here: one target per row."""
        targets_B = torch.full((batch.rows,), IGNORED)
        targets_B[: len(batch.examples)] = torch.tensor(batch.targets(self.head))
        return None, targets_B

    def loss(self, outputs: Outputs, batch: Batch) -> tuple[Tensor, Tensor]:
        logits, targets = outputs.by_head[self.head], batch.targets[self.head]
        loss, nll = smoothed_cross_entropy(logits, targets, self.smoothing)
        return self.loss_weight * loss, nll

    def dev_sums(self, outputs: Outputs, batch: Batch) -> list[Tensor]:
        """Sums over the development set (``dev_size``): unweighted loss, targets, correct ones."""
        targets = batch.targets[self.head]
        correct = outputs.by_head[self.head].argmax(-1) == targets
        return [self.loss(outputs, batch)[1], (targets != IGNORED).sum(), correct.sum()]

    def dev_metrics(self, loss: float, count: float, *others: float) -> dict[str, float]:
        """Metrics of the development set, by name, from its mean loss and the other sums."""
        (correct,) = others
        return self.metrics(loss, 100 * correct / count)

    def metrics(self, loss: float, accuracy: float) -> dict[str, float]:
        """Metrics of the development set, by name: perplexity and accuracy over the targets."""
        return {"perplexity": exp(min(loss, 700.0)), "accuracy": accuracy}

    def text_metrics(self, loss: float, tokenizer: RowTokenizer, rows: Rows) -> dict[str, float]:
        """Those that depend on the texts of the development set as well, if there are any."""
        return {}


def collate_rows(objectives: Sequence[RowObjective], rows: Rows, limits: Limits = None) -> Batch:
    """A batch of rows with the positions and targets of each objective."""
    ordered = any(objective.orders_rows for objective in objectives)
    inputs = pack_rows([example.row for example in rows], limits, even=True, ordered=ordered)
    starts = np.cumsum([0, *(len(example.row.tokens) for example in rows)])[:-1]
    batch, positions, targets = RowBatch(rows, starts, inputs.layout.rows, limits), {}, {}
    for objective in objectives:
        head = objective.head
        chosen, of_head = objective.collate_targets(batch)
        if chosen is not None:
            positions[head] = chosen
        if of_head is not None:
            targets[head] = of_head
    weight = sum(float(one.weight(example)) for one in objectives for example in rows)
    return Batch(inputs, targets, weight, positions)


def at_all_tokens(batch: Batch, head: str) -> Batch:
    """The batch for a head that reads all tokens: tokens without a target are ignored."""
    at_N, targets_N = batch.positions[head], batch.targets[head]
    counts_N = targets_N != IGNORED
    targets_T = torch.full((batch.inputs.layout.tokens,), IGNORED)
    targets_T[at_N[counts_N]] = targets_N[counts_N]
    positions = {name: at for name, at in batch.positions.items() if name != head}
    return replace(batch, positions=positions, targets={**batch.targets, head: targets_T})
