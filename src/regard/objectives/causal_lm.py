"""Causal language modelling: the next token, given those before it (Radford et al., 2018, eq. 1).

A row is a document, or a part of one that is too long: tokens of different documents never see each
other, and positions begin anew. Or rows are full blocks of all documents, as in GPT-2. Each
document comes after the separator of the vocabulary, so that its first token is predicted, and its
end as well.

Or all documents are cut into as many streams as a batch has rows, and recurrent models carry their
state from batch to batch: truncated backpropagation through time (Mikolov et al., 2010). So they do
over the development set.

The order of this file: the table in recipes; the head; documents → rows with targets; streams;
examples → a batch; metrics. The loss, cross-entropy at all tokens, is that of ``RowObjective``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log
from typing import Any, Literal

import numpy as np
from pydantic import Field
from torch import Tensor, nn

from regard.data.block_plans import text_rows
from regard.data.datasets.documents import DocumentDataset
from regard.data.datasets.streams import TextStreams
from regard.data.documents import Documents
from regard.data.row_plans import PlanRows
from regard.data.stream_sampler import Streams
from regard.ground.batch import IGNORED, BatchLimits, pack_ids
from regard.ground.config import Config
from regard.ground.errors import BadInput
from regard.models.facts import NextTokenHead, TrunkWithHeads
from regard.objectives.rows import Annotate, AnnotatedRow, RowObjective
from regard.text.templates import RowBuilder

DEV_STREAMS = 10  # as in the evaluation of Merity et al. (2017)


class CausalLMConfig(Config):
    """The table ``[objective.causal-lm]``."""

    rows: Literal["documents", "blocks", "streams"] = "documents"
    """ "documents": a row is a document, or a part of a long one. "blocks": rows are full, and
    tokens see those of the documents before theirs in the same row. "streams": each row of a batch
    goes on where that of the batch before ended, and so does the state of a recurrent model."""
    weight: float = Field(1.0, ge=0)
    """The weight of its loss, beside those of other objectives."""


@dataclass(frozen=True)
class CausalLM(RowObjective):
    """Predicts the next token; the loss is the mean over all tokens of a step."""

    name, config, head = "causal-lm", CausalLMConfig, NextTokenHead.name
    makes_rows, whole_texts, per_token = True, True, True
    form: str = "documents"  # of rows
    smoothing: float = 0.0
    loss_weight: float = 1.0

    @classmethod
    def from_config(cls, config: CausalLMConfig, smoothing: float) -> "CausalLM":
        """The objective with the settings of a recipe."""
        return cls(config.rows, smoothing, config.weight)

    def make_head(self) -> NextTokenHead:
        """An output layer over the vocabulary, tied to the token embeddings."""
        return NextTokenHead()

    def check(self, facts: TrunkWithHeads) -> None:
        """A token may not see what it is to predict."""
        if not facts.trunk.stack.causal:
            raise BadInput("objective.causal-lm: tokens of this model see later ones")
        if self.carries_state and not facts.trunk.stack.carries_state:
            raise BadInput("objective.causal-lm: rows 'streams' need recurrent layers")

    def rows(self, documents: Documents, template: RowBuilder, longest: int, seed: int) -> PlanRows:
        """Parts of documents, or of all of them."""
        separator = next((token for token, _ in template.frame(1).between), None)
        return text_rows(documents, separator, longest, seed, across=self.form != "documents")

    @property
    def carries_state(self) -> bool:
        """Whether rows are streams."""
        return self.form == "streams"

    def initial_state(self, model: nn.Module, streams: int) -> Any:
        """The state of recurrent layers that have read nothing."""
        whole: Any = model
        return whole.trunk.new_state(streams)

    def train_streams(self, rows: DocumentDataset, limits: BatchLimits) -> Streams:
        """As many streams as a batch has room for."""
        streams = min(limits.rows, limits.tokens // limits.longest)
        return TextStreams.of(rows, streams, limits.longest)

    def dev_streams(self, rows: DocumentDataset, limits: BatchLimits) -> Streams:
        """Ten streams, or one for each row of a short text."""
        return TextStreams.of(rows, min(DEV_STREAMS, len(rows)), limits.longest)

    def annotator(self, tokenizer: Any) -> Annotate:
        """A function that gives each token the next one as its target."""

        def annotate(
            rows: Sequence[AnnotatedRow], indices: np.ndarray, key: tuple[int, ...]
        ) -> list[AnnotatedRow]:
            return [self._with_targets(example) for example in rows]

        return annotate

    def _with_targets(self, example: AnnotatedRow) -> AnnotatedRow:
        """The row came with the token after it, unless its text ends there."""
        after = example.targets.get(self.head, IGNORED)
        targets = np.append(np.asarray(example.row.tokens[1:], np.int64), after)
        return example._replace(targets={**example.targets, self.head: targets})

    def weight(self, example: AnnotatedRow) -> float:
        """The number of its targets."""
        return int(np.sum(example.targets[self.head] != IGNORED))

    def collate_targets(
        self,
        examples: Sequence[AnnotatedRow],
        starts: np.ndarray,
        rows: int,
        limits: BatchLimits | None,
    ) -> tuple[None, Tensor]:
        """The next token of each token; with ``limits``, as many as these have tokens."""
        return None, pack_ids([row.targets[self.head] for row in examples], limits, IGNORED)

    def metrics(self, loss: float, accuracy: float) -> dict[str, float]:
        """Perplexity and accuracy over all tokens."""
        return {"perplexity": exp(min(loss, 700.0)), "accuracy": accuracy}

    def text_metrics(
        self, loss: float, tokenizer: Any, examples: Sequence[AnnotatedRow]
    ) -> dict[str, float]:
        """Bits per byte of the text, if its tokens are bytes."""
        sizes = tokenizer.words.byte_sizes
        if sizes is None:
            return {}
        targets = np.concatenate([example.targets[self.head] for example in examples])
        targets = targets[targets != IGNORED]
        return {"bits_per_byte": loss * len(targets) / log(2) / max(1, sizes[targets].sum())}
