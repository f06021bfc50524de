"""Pre-training objectives over the same rows of tokens, each with a head of its own.

One objective makes rows of documents (``rows``), each may annotate them with targets
(``annotator``), examples become a batch (``collate``), and each objective computes its ``loss``
from the logits of one forward pass. ``Sum`` combines several.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import exp
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor, nn

from regard.core.batch import IGNORED, Batch, BatchLimits, Ids, Limits, TokenRow, pack_rows
from regard.core.config import Config
from regard.data.batches.document_dataset import DocumentDataset, RowStreams
from regard.data.batches.sampler import Streams
from regard.data.rows.documents import Documents
from regard.data.rows.row_plans import PlanRows, full_rows
from regard.layers.losses import smoothed_cross_entropy
from regard.models.folders.loaded_model import LoadedModel
from regard.models.heads import AnyHead
from regard.models.macs import RowLengths
from regard.models.trunk_with_heads import Outputs, TrunkWithHeads
from regard.objectives.objective import Objective, padded
from regard.text.templates import RowBuilder
from regard.text.tokenizers.row_tokenizer import RowTokenizer

if TYPE_CHECKING:
    from regard.text.field_template import FieldTemplate


class AnnotatedRow(NamedTuple):
    """Row of tokens with the targets of each head, and their positions in the row.

    A head that reads whole rows has a target and no positions.
    """

    row: TokenRow
    positions: dict[str, Ids]
    targets: dict[str, Any]

    def annotated(self, head: str, positions: Ids, targets: Ids, **row: Ids) -> "AnnotatedRow":
        """Return the row with targets of a head, and with other tokens or orders, if given."""
        own = {**self.positions, head: positions}, {**self.targets, head: targets}
        return AnnotatedRow(self.row._replace(**row), *own)


Rows = Sequence[AnnotatedRow]


class RowBatch(NamedTuple):
    """Rows laid end to end, and the index of the first token of each.

    With ``limits``, the batch has a fixed shape, with more ``rows`` than examples.
    """

    examples: Rows
    starts: np.ndarray
    rows: int
    limits: Limits

    def positions(self, head: str) -> list[np.ndarray]:
        """Positions at which an output head predicts, counted from the start of the batch."""
        pairs = zip(self.examples, self.starts, strict=True)
        return [np.asarray(example.positions[head]) + start for example, start in pairs]

    def targets(self, head: str) -> list[Any]:
        """Targets of an output head, for each row."""
        return [example.targets[head] for example in self.examples]


Annotate = Callable[[Rows, np.ndarray, tuple[int, ...]], list[AnnotatedRow]]
"""(rows, their indices in the dataset, the key (seed, epoch)) → rows with targets."""


class RowMaker:
    """Base class of objectives that make rows of documents, by default filled with sentences.

    Rows may be read in streams, with a state that is carried from row to row.
    """

    head: ClassVar[str]  # name of the targets with which rows are made, if there are some
    whole_texts: ClassVar[bool] = False  # documents are not divided into sentences
    fields: "FieldTemplate | None" = None  # the fields of documents that are records

    @property
    def joins_documents(self) -> bool:
        """Whether a row may hold several documents, whose tokens see each other."""
        return True

    def rows(self, documents: Documents, template: RowBuilder, longest: int, seed: int) -> PlanRows:
        """Rows of at most ``longest`` tokens; default: filled with consecutive sentences."""
        plan = full_rows(documents, template.frame(1), longest)
        return lambda epoch: plan

    @property
    def carries_state(self) -> bool:
        """Whether rows are read in streams."""
        return False

    def initial_state(self, model: nn.Module, streams: int) -> object:
        """The state at the beginning of ``streams`` streams."""
        raise NotImplementedError

    def train_streams(self, rows: DocumentDataset, limits: BatchLimits) -> Streams:
        """Training rows in streams."""
        return RowStreams.of(rows, limits)

    def dev_streams(self, rows: DocumentDataset, limits: BatchLimits) -> Streams | None:
        """Development rows in streams; None: each row is read on its own."""
        return None


class RowObjective(RowMaker, Objective[AnnotatedRow, object]):
    """Objective over rows of documents.

    ``config`` is the type of its table ``[objective.NAME]`` in recipes. Of the objectives of a
    ``Sum``, at most one ``makes_rows``; the others add targets to these.
    """

    name: ClassVar[str]
    config: ClassVar[type[Config]]
    sides: ClassVar[tuple[str, ...]] = TrunkWithHeads.sides  # of the model that it trains
    makes_rows: ClassVar[bool] = False
    orders_rows: ClassVar[bool] = False  # rows have factorization orders
    scores_texts: ClassVar[bool] = False  # the trained model gives texts a probability
    smooths: ClassVar[bool] = True  # label smoothing applies
    dev_size: ClassVar[int] = 3
    fields_by_key: ClassVar[Mapping[str, str]] = {"weight": "loss_weight"}  # with other names
    smoothing: float  # label smoothing
    loss_weight: float = 1.0  # in the sum of all objectives

    @classmethod
    def from_config(cls, config: Any, smoothing: float) -> Self:
        """Make the objective of a recipe table, whose keys are its fields."""
        keys = type(config).model_fields
        settings = {cls.fields_by_key.get(key, key): getattr(config, key) for key in keys}
        settings["smoothing"] = smoothing
        return cls(**settings)

    @property
    def members(self) -> "tuple[RowObjective, ...]":
        """Objectives that this one consists of, each with its own loss; default: itself."""
        return (self,)

    def extend(
        self, facts: TrunkWithHeads, fit_heads: Callable[[TrunkWithHeads], TrunkWithHeads]
    ) -> Any:
        """Return the model to train: by default unchanged, else a ``Joint`` of two models.

        ``fit_heads`` gives heads the form of the paper.
        """
        return facts

    @property
    def reads_all_tokens(self) -> frozenset[str]:
        """Heads that must read all tokens for this objective, not only chosen positions."""
        return frozenset()

    def open(self, data: Path, longest: int) -> LoadedModel | None:
        """Read the teacher, if there is one; its vocabulary is also the student's."""
        return None

    def teach(self, batch: Batch) -> dict[str, Tensor]:
        """Predictions of a teacher, by name, which the loss reads as targets."""
        return {}

    def extra_flops(
        self, facts: TrunkWithHeads, lengths: RowLengths, positions: Mapping[str, int]
    ) -> float:
        """Floating-point operations of one step that ``training_flops`` does not count."""
        return 0.0

    def make_head(self) -> AnyHead:
        """Make the head that the objective trains."""
        raise NotImplementedError

    def make_heads(self) -> tuple[AnyHead, ...]:
        """Make all heads of the model that the objective trains."""
        return (self.make_head(),)

    def check(self, facts: TrunkWithHeads) -> None:
        """Raise BadInput if the model cannot be trained with this objective."""

    def check_vocabulary(self, size: int) -> None:
        """Raise BadInput if a vocabulary of this size is too small."""

    def count_words(self, documents: Sequence[Documents], vocab: int) -> "RowObjective":
        """Return the objective with the word counts of the training documents, if it needs them."""
        return self

    def annotator(self, tokenizer: RowTokenizer) -> Annotate | None:
        """A function that adds targets to rows; None if ``rows`` already have targets."""
        return None

    def expected_positions(self, tokens: int) -> int | None:
        """Expected number of ``tokens`` that the head reads; None: all tokens, or whole rows."""
        return None

    def length(self, example: AnnotatedRow) -> tuple[int, ...]:
        return (len(example.row.tokens),)

    def collate(self, examples: Rows, limits: Limits = None) -> Batch:
        return collate_rows((self,), examples, limits)

    def collate_targets(self, batch: RowBatch) -> tuple[Tensor | None, Tensor | None]:
        """(positions, targets) of a batch; default: one target per row."""
        targets_B = torch.tensor(batch.targets(self.head), dtype=torch.int64)
        return None, padded(targets_B, batch.rows, IGNORED)

    def loss(self, outputs: Outputs, batch: Batch) -> tuple[Tensor, Tensor]:
        logits, targets = outputs.by_head[self.head], batch.targets[self.head]
        loss, nll = smoothed_cross_entropy(logits, targets, self.smoothing)
        return self.loss_weight * loss, nll

    def dev_sums(self, outputs: Outputs, batch: Batch) -> list[Tensor]:
        """Sums over the development set (``dev_size``): unweighted loss, targets, correct ones."""
        targets = batch.targets[self.head]
        correct = outputs.by_head[self.head].argmax(-1) == targets
        return [self.loss(outputs, batch)[1], (targets != IGNORED).sum(), correct.sum()]

    def dev_metrics(self, loss: float, count: float, *sums: float) -> dict[str, float]:
        """Metrics of the development set, by name, from its mean loss and the other sums."""
        (correct,) = sums
        return self.metrics(loss, 100 * correct / count)

    def metrics(self, loss: float, accuracy: float) -> dict[str, float]:
        """Metrics of the development set, by name: perplexity and accuracy over the targets."""
        return {"perplexity": exp(min(loss, 700.0)), "accuracy": accuracy}

    def text_metrics(self, loss: float, tokenizer: RowTokenizer, rows: Rows) -> dict[str, float]:
        """Metrics that also depend on the texts of the development set."""
        return {}


def collate_rows(objectives: Sequence[RowObjective], rows: Rows, limits: Limits = None) -> Batch:
    """Make a batch of rows with the positions and targets of each objective."""
    ordered = any(objective.orders_rows for objective in objectives)
    inputs = pack_rows([example.row for example in rows], limits, even=True, ordered=ordered)
    starts = np.cumsum([0, *(len(example.row.tokens) for example in rows)])[:-1]
    batch = RowBatch(rows, starts, inputs.layout.rows, limits)
    pairs = {objective.head: objective.collate_targets(batch) for objective in objectives}
    positions = {head: at for head, (at, _) in pairs.items() if at is not None}
    targets = {head: targets for head, (_, targets) in pairs.items() if targets is not None}
    weight = sum(float(objective.weight(row)) for objective in objectives for row in rows)
    return Batch(inputs, targets, weight, positions)


def at_all_tokens(batch: Batch, head: str) -> Batch:
    """Return the batch with a target of a head at every token; missing targets are ignored."""
    at_N, targets_N = batch.positions[head], batch.targets[head]
    counts_N = targets_N != IGNORED
    targets_T = torch.full((batch.inputs.layout.tokens,), IGNORED)
    targets_T[at_N[counts_N]] = targets_N[counts_N]
    positions = {name: at for name, at in batch.positions.items() if name != head}
    return replace(batch, positions=positions, targets={**batch.targets, head: targets_T})
