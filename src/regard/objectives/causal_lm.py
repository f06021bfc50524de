"""Causal language modelling: the next token, given the tokens before it (Radford et al., 2018, eq.
1).

Rows are documents (or parts of long ones), full blocks of all documents (GPT-2), or the next parts
of as many streams as a batch has rows, over which a recurrent model carries its state: truncated
backpropagation through time (Mikolov et al., 2010). A document begins after the separator of the
vocabulary, so that its first token and its end are predicted.
"""

from dataclasses import dataclass
from math import log
from typing import ClassVar, Literal, cast

import numpy as np
from pydantic import Field, model_validator
from torch import Tensor, nn

from regard.core.batch import IGNORED, Batch, BatchLimits, pack_ids
from regard.core.config import Config
from regard.core.errors import BadInput
from regard.data.batches.document_dataset import DocumentDataset, TextStreams
from regard.data.batches.sampler import Streams
from regard.data.rows.block_plans import ChunkLengths, TokenStream, text_rows
from regard.data.rows.documents import Documents
from regard.data.rows.row_plans import PlanRows
from regard.layers.losses import mean_square, mean_square_change
from regard.models.heads import NextTokenHead
from regard.models.trunk_with_heads import Outputs, TrunkWithHeads, TrunkWithHeadsModule
from regard.objectives.rows import Annotate, AnnotatedRow, RowBatch, RowObjective, Rows
from regard.text.templates import RowBuilder
from regard.text.tokenizers.row_tokenizer import RowTokenizer

DEV_STREAMS = 10  # the evaluation of Merity et al. (2017)


class CausalLMConfig(Config):
    """The table ``[objective.causal-lm]``."""

    rows: Literal["documents", "blocks", "streams"] = "documents"
    """ "documents": a row is a document, or a part of a long one. "blocks": rows are full, and
    tokens see those of the documents before theirs in the same row. "streams": each row of a batch
    goes on where that of the batch before ended, and so does the state of a recurrent model."""
    mean_length: int = Field(0, ge=0)
    """The mean length of the parts in which streams are read, drawn anew in each epoch; the
    learning rate is in proportion to the length. 0: all parts have `batches.longest` tokens."""
    ar: float = Field(0.0, ge=0)
    """The weight of activation regularisation (arXiv:1708.01009): the mean square of the states."""
    tar: float = Field(0.0, ge=0)
    """The weight of temporal activation regularisation: the mean square of the difference between
    the states of successive tokens."""
    weight: float = Field(1.0, ge=0)
    """The weight of the causal-LM loss in the sum of all objectives."""

    @model_validator(mode="after")
    def _streams_have_lengths(self) -> "CausalLMConfig":
        if self.mean_length and self.rows != "streams":
            raise ValueError("mean_length needs rows = 'streams'")
        return self


@dataclass(frozen=True)
class CausalLM(RowObjective):
    """Causal-LM objective: the next token; the loss is the mean over all tokens of a step."""

    name, head = "causal-lm", NextTokenHead.name
    config: ClassVar[type[Config]] = CausalLMConfig
    makes_rows, whole_texts, per_token, scores_texts = True, True, True, True
    fields_by_key: ClassVar = {**RowObjective.fields_by_key, "rows": "form"}
    form: str = "documents"
    smoothing: float = 0.0
    loss_weight: float = 1.0
    mean_length: int = 0
    ar: float = 0.0
    tar: float = 0.0

    def make_head(self) -> NextTokenHead:
        return NextTokenHead()

    def check(self, facts: TrunkWithHeads) -> None:
        if not facts.trunk.stack.causal:
            raise BadInput("objective.causal-lm: this model is not causal: tokens see later tokens")
        if self.carries_state and not facts.trunk.stack.carries_state:
            raise BadInput("objective.causal-lm.rows: 'streams' needs recurrent layers")

    def rows(self, documents: Documents, template: RowBuilder, longest: int, seed: int) -> PlanRows:
        stream = self.token_stream(documents, template.separator)
        return text_rows(stream, longest, seed, across=self.joins_documents)

    def token_stream(self, documents: Documents, separator: int | None) -> TokenStream:
        """The text of all documents, of which rows are parts."""
        return TokenStream(documents, separator)

    @property
    def joins_documents(self) -> bool:
        return self.form != "documents"

    @property
    def carries_state(self) -> bool:
        return self.form == "streams"

    def initial_state(self, model: nn.Module, streams: int) -> object:
        return cast(TrunkWithHeadsModule, model).trunk.new_state(streams)

    def train_streams(self, rows: DocumentDataset, limits: BatchLimits) -> Streams:
        streams = min(limits.rows, limits.tokens // limits.longest)
        if self.mean_length > limits.longest:
            raise BadInput(
                f"objective.causal-lm.mean_length: parts of {self.mean_length} tokens are longer "
                f"than batches.longest ({limits.longest})"
            )
        return TextStreams.of(rows, streams, ChunkLengths(limits.longest, self.mean_length))

    def dev_streams(self, rows: DocumentDataset, limits: BatchLimits) -> Streams:
        streams = min(DEV_STREAMS, len(rows))
        return TextStreams.of(rows, streams, ChunkLengths(max(1, limits.tokens // streams)))

    def annotator(self, tokenizer: RowTokenizer) -> Annotate:
        def annotate(rows: Rows, indices: np.ndarray, key: tuple[int, ...]) -> list[AnnotatedRow]:
            return [self._with_targets(example) for example in rows]

        return annotate

    def _with_targets(self, example: AnnotatedRow) -> AnnotatedRow:
        """Add the next tokens of a row as targets; the last one is the token after the row."""
        after = example.targets.get(self.head, IGNORED)
        targets = np.append(np.asarray(example.row.tokens[1:], np.int64), after)
        return example._replace(targets={**example.targets, self.head: targets})

    def weight(self, example: AnnotatedRow) -> float:
        return int(np.sum(example.targets[self.head] != IGNORED))

    def collate_targets(self, batch: RowBatch) -> tuple[None, Tensor]:
        return None, pack_ids(batch.targets(self.head), batch.limits, IGNORED)

    def loss(self, outputs: Outputs, batch: Batch) -> tuple[Tensor, Tensor]:
        loss, nll = super().loss(outputs, batch)
        if not self.ar and not self.tar:
            return loss, nll
        count = (batch.targets[self.head] != IGNORED).sum()
        states_TD, undropped_TD = outputs.encoded.states_TD, outputs.encoded.undropped_TD
        before_TD = states_TD if undropped_TD is None else undropped_TD
        penalty = self.ar * mean_square(states_TD)
        penalty = penalty + self.tar * mean_square_change(before_TD, batch.inputs.layout)
        return loss + self.loss_weight * count * penalty, nll

    def text_metrics(self, loss: float, tokenizer: RowTokenizer, rows: Rows) -> dict[str, float]:
        sizes = tokenizer.words.byte_sizes
        if sizes is None:
            return {}
        targets = np.concatenate([example.targets[self.head] for example in rows])
        targets = targets[targets != IGNORED]
        return {"bits_per_byte": loss * len(targets) / log(2) / max(1, sizes[targets].sum())}
