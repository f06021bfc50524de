"""Language models in both directions, trained jointly (Peters et al., 2018, section 3.1).

Both share word vectors and softmax. As in the published code, the forward model reads all
sentences, the backward model the same sentences in the same order, each reversed. Both texts are
cut into as many streams as a batch has rows, and each direction carries its state from chunk to
chunk. Words beyond the softmax are read by their characters and predicted as unknown.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import exp
from typing import ClassVar, cast

import numpy as np
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from regard.core.batch import IGNORED, Batch, BatchLimits, pack_ids
from regard.core.config import Config
from regard.core.errors import BadInput
from regard.data.batches.document_dataset import DocumentDataset, TextStreams
from regard.data.batches.sampler import Streams
from regard.data.rows.block_plans import ChunkLengths, SentenceStream
from regard.data.rows.documents import Documents
from regard.layers.losses import smoothed_cross_entropy
from regard.models.macs import FORWARD_AND_BACKWARD, RowLengths, first_lengths
from regard.models.papers.elmo import BiLMHead
from regard.models.trunk_with_heads import Outputs, TrunkWithHeads
from regard.objectives.causal_lm import CausalLM
from regard.objectives.rows import Annotate, AnnotatedRow, RowBatch, Rows
from regard.text.tokenizers.row_tokenizer import RowTokenizer
from regard.text.tokenizers.word_level import CharacterVocabulary
from regard.text.vocabulary import BEGIN, END, UNKNOWN, Lexicon

DEV_ROWS = 20  # the minimum of rows of a stream of the development set


class BiLMConfig(Config):
    """The table ``[objective.bilm]``."""

    words: int = Field(50_000, ge=4)
    """The number of most frequent words that are predicted, at most ``text.vocab``."""


@dataclass(frozen=True)
class BiLM(CausalLM):
    """Bidirectional-LM objective: the next word of sentences and of reversed sentences."""

    name, head = "bilm", BiLMHead.name
    config: ClassVar = BiLMConfig
    whole_texts = False
    eager = True  # the characters of each distinct word of a batch are read once
    dev_size = 5
    form: str = "streams"
    words: int = 50_000

    def make_head(self) -> BiLMHead:  # type: ignore[override]
        return BiLMHead(self.words)

    def check(self, facts: TrunkWithHeads) -> None:
        if not facts.trunk.stack.two_directions:
            raise BadInput(
                "objective.bilm: only ELMo's stack has language models in both directions"
            )

    def check_vocabulary(self, size: int) -> None:
        if self.words > size:
            fault = f"{self.words:,} is above the size of the vocabulary, {size:,} (text.vocab)"
            raise BadInput(f"objective.bilm.words: {fault}")

    def token_stream(self, documents: Documents, separator: int | None) -> SentenceStream:
        return SentenceStream(documents)

    def extra_flops(
        self, facts: TrunkWithHeads, lengths: RowLengths, positions: Mapping[str, int]
    ) -> float:
        words, trunk = int(first_lengths(lengths).sum()), facts.trunk
        return FORWARD_AND_BACKWARD * words * trunk.embed.macs(trunk.stack.input_width)

    def dev_streams(self, rows: DocumentDataset, limits: BatchLimits) -> Streams:
        streams = min(limits.rows, max(1, len(rows) // DEV_ROWS))
        return TextStreams.of(rows, streams, ChunkLengths(limits.longest))

    def annotator(self, tokenizer: RowTokenizer) -> Annotate:
        lexicon = cast(Lexicon, tokenizer.training_words)
        spelling = cast(CharacterVocabulary, tokenizer.words)
        spelled_NC = spelling.spell_all(lexicon).astype(np.int16)
        predicted_N = np.arange(len(lexicon))
        predicted_N[self.words :] = lexicon.ids[UNKNOWN]

        def annotate(rows: Rows, indices: np.ndarray, key: tuple[int, ...]) -> list[AnnotatedRow]:
            if not rows:
                return []
            words_T2 = np.concatenate([example.row.tokens for example in rows], dtype=np.int64)
            ends = np.cumsum([len(example.row.tokens) for example in rows])
            next_T2 = np.roll(words_T2, -1, axis=0)
            next_T2[ends - 1] = [example.targets[self.head] for example in rows]
            # That a sentence begins after the end of another is not learned.
            counts_T2 = next_T2 != [lexicon.ids[BEGIN], lexicon.ids[END]]
            targets_T2 = np.where(counts_T2, predicted_N[next_T2], IGNORED)
            parts = (np.split(whole, ends[:-1]) for whole in (spelled_NC[words_T2], targets_T2))
            return [
                example._replace(row=example.row._replace(tokens=ids), targets={self.head: targets})
                for example, ids, targets in zip(rows, *parts, strict=True)
            ]

        return annotate

    def collate_targets(self, batch: RowBatch) -> tuple[None, Tensor]:
        targets = batch.targets(self.head)
        return None, pack_ids(targets or [np.empty((0, 2))], batch.limits, IGNORED)

    def loss(self, outputs: Outputs, batch: Batch) -> tuple[Tensor, Tensor]:
        logits, targets = outputs.by_head[self.head], batch.targets[self.head]
        return smoothed_cross_entropy(logits.flatten(0, 1), targets.flatten(), self.smoothing)

    def dev_sums(self, outputs: Outputs, batch: Batch) -> list[Tensor]:
        logits_TV, targets_T = outputs.by_head[self.head][:, 0], batch.targets[self.head][:, 0]
        forward = F.cross_entropy(
            logits_TV.float(), targets_T, ignore_index=IGNORED, reduction="sum"
        )
        return [*super().dev_sums(outputs, batch), forward, (targets_T != IGNORED).sum()]

    def dev_metrics(self, loss: float, count: float, *sums: float) -> dict[str, float]:
        correct, forward, forward_count = sums
        backward, backward_count = loss * count - forward, count - forward_count
        ways = {"forward": (forward, forward_count), "backward": (backward, backward_count)}
        return self.metrics(loss, 100 * correct / count) | {
            f"{way}_perplexity": exp(min(total / max(1, counted), 700.0))
            for way, (total, counted) in ways.items()
        }
