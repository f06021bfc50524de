"""Span corruption (Raffel et al., 2019, arXiv:1910.10683, section 3.1.4): T5's pre-training.

Spans of tokens are taken out of a text, and an encoder-decoder writes them. The source has a
sentinel in place of each span; the target has each span after its sentinel, and one more sentinel:

    Thank you <extra_id_0> me to your party <extra_id_1> week
    <extra_id_0> for inviting <extra_id_1> last <extra_id_2>

15% of the tokens of a row are taken out, in spans of 3 tokens on average; both numbers, of tokens
and of spans, are rounded. Where the spans are depends on (seed, epoch, index of the row).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

import numpy as np
from pydantic import Field

from regard.core.batch import IGNORED, Batch, Limits, SourceTarget, TokenRow, pack, pack_ids
from regard.core.config import Config
from regard.core.errors import BadInput
from regard.data.counter_rng import streams, uniform
from regard.data.rows.block_plans import TokenStream, text_rows
from regard.data.rows.documents import Documents
from regard.data.rows.row_plans import EpochPlan, Passage, PlanRows
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.heads import AnyHead, NextTokenHead
from regard.objectives.rows import Annotate, AnnotatedRow, RowObjective, Rows
from regard.text.templates import RowBuilder
from regard.text.tokenizers.encoder_tokenizer import EncoderTokenizer
from regard.text.tokenizers.row_tokenizer import RowTokenizer
from regard.text.tokenizers.t5 import T5Tokenizer
from regard.text.tokenizers.unigram import SENTINELS


class SpanCorruptionConfig(Config):
    """The table ``[objective.span-corruption]``."""

    rate: float = Field(0.15, gt=0, le=0.5)
    """The share of tokens that are taken out and predicted."""
    mean_length: float = Field(3.0, ge=1)
    """The mean length of a span, in tokens."""


class SpanCounts(NamedTuple):
    """Number of tokens that are taken out of rows of some lengths, and of their spans."""

    tokens: np.ndarray
    spans: np.ndarray


@dataclass(frozen=True)
class SpanDraw:
    """Random spans of rows: a share ``rate`` of the tokens, ``mean_length`` tokens on average."""

    rate: float = 0.15
    mean_length: float = 3.0

    def counts(self, lengths_N: np.ndarray) -> SpanCounts:
        """Tokens and spans of rows of these lengths: at least one, and none in a row of one token.

        A token of the text stands before every span.
        """
        taken_N = np.clip(np.round(lengths_N * self.rate), 1, lengths_N - 1)
        most_N = np.minimum(taken_N, lengths_N - taken_N)
        spans_N = np.clip(np.round(taken_N / self.mean_length), 1, most_N)
        return SpanCounts(taken_N.astype(np.int64), spans_N.astype(np.int64))

    def lengths(self, lengths_N: np.ndarray) -> np.ndarray:
        """Lengths (N, 2) of sources and targets with EOS, from rows of these lengths."""
        taken_N, spans_N = self.counts(lengths_N)
        return np.stack([lengths_N - taken_N + spans_N + 1, taken_N + spans_N + 2], axis=1)

    def row_size(self, longest: int) -> int:
        """Number of tokens of a row whose source and target have at most ``longest`` tokens."""
        sizes_N = np.arange(2, 2 * longest + 2)
        fits_N = (self.lengths(sizes_N) <= longest).all(axis=1)
        if not fits_N.any():
            raise BadInput(f"batches.longest: {longest} tokens have no room for a span; 4 have")
        size = int(sizes_N[fits_N].max())
        spans = int(self.counts(np.array([size])).spans[0])
        if spans >= SENTINELS:
            most = f"T5 has {SENTINELS} sentinels, one of which ends the target"
            many = f"rows of {size:,} tokens have {spans} spans, but {most}"
            raise BadInput(
                f"batches.longest: {many}: lower it, or raise objective.span-corruption.mean_length"
            )
        return size

    def corrupt(
        self, tokens_T: np.ndarray, sentinels: np.ndarray, stream: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Source and target of a row, without EOS; ``stream`` decides where the spans are."""
        length = len(tokens_T)
        (count,), (spans,) = self.counts(np.array([length]))
        if not spans:
            return tokens_T, sentinels[:1]
        texts = segment_lengths(length - count, spans, stream, 0)
        of_spans = segment_lengths(count, spans, stream, length)
        parts = np.stack([texts, of_spans], axis=1).ravel()  # a text, a span, a text, …
        in_span_T = np.repeat(np.arange(2 * spans) % 2 == 1, parts)
        source = np.insert(tokens_T[~in_span_T], np.cumsum(texts), sentinels[:spans])
        starts = np.append(0, np.cumsum(of_spans))
        return source, np.insert(tokens_T[in_span_T], starts, sentinels[: spans + 1])


def segment_lengths(total: int, segments: int, stream: np.ndarray, first: int) -> np.ndarray:
    """Lengths of non-empty segments of ``total`` tokens, drawn from ``first`` on in the stream.

    All ways to divide the tokens are equally likely.
    """
    draws = uniform(stream, first + np.arange(total - 1))
    cuts = np.sort(np.argsort(draws, kind="stable")[: segments - 1]) + 1
    return np.diff(np.concatenate([[0], cuts, [total]]))


@dataclass(frozen=True, eq=False)
class CorruptedRows:
    """Plan of rows with the lengths of their sources and targets."""

    plan: EpochPlan
    draw: SpanDraw

    def __len__(self) -> int:
        return len(self.plan)

    @property
    def lengths(self) -> np.ndarray:
        """Number of tokens of every source and target, (rows, 2)."""
        return self.draw.lengths(self.plan.lengths)

    def read(self, rows: np.ndarray) -> list[Passage]:
        """Read these rows, not yet corrupted."""
        return [Passage(row, None) for row, _ in self.plan.read(rows)]


@dataclass(frozen=True)
class SpanCorruption(RowObjective):
    """Span-corruption objective of an encoder-decoder; the loss is the mean over target tokens.

    Rows are full, across documents. The targets of an annotated row begin with the first input of
    the decoder and end with EOS.
    """

    name, config, head = "span-corruption", SpanCorruptionConfig, NextTokenHead.name
    makes_rows, whole_texts, sides = True, True, EncoderDecoder.sides
    draw: SpanDraw = SpanDraw()
    smoothing: float = 0.0

    @classmethod
    def from_config(cls, config: SpanCorruptionConfig, smoothing: float) -> "SpanCorruption":
        return cls(SpanDraw(config.rate, config.mean_length), smoothing)

    def make_heads(self) -> tuple[AnyHead, ...]:
        return ()

    def rows(self, documents: Documents, template: RowBuilder, longest: int, seed: int) -> PlanRows:
        size = self.draw.row_size(longest)
        plan = text_rows(TokenStream(documents, None), size, seed, across=True)
        return lambda epoch: CorruptedRows(plan(epoch), self.draw)

    def annotator(self, tokenizer: RowTokenizer) -> Annotate:
        words = T5Tokenizer.of(cast(EncoderTokenizer, tokenizer)).source
        sentinels = np.array(words.sentinels)
        if len(sentinels) < SENTINELS:
            fault = f"the vocabulary has {len(sentinels)} sentinels, not {SENTINELS}"
            raise BadInput(f"objective.span-corruption: {fault}: choose another model.start")

        def annotate(rows: Rows, indices: np.ndarray, key: tuple[int, ...]) -> list[AnnotatedRow]:
            annotated = []
            for example, stream in zip(rows, streams(key, indices), strict=True):
                tokens_T = np.asarray(example.row.tokens, np.int64)
                source, target = self.draw.corrupt(tokens_T, sentinels, stream)
                row = TokenRow.of(np.append(source, words.eos))
                targets = np.concatenate([[words.bos], target, [words.eos]])
                annotated.append(AnnotatedRow(row, {}, {self.head: targets}))
            return annotated

        return annotate

    def length(self, example: AnnotatedRow) -> tuple[int, ...]:
        return len(example.row.tokens), len(example.targets[self.head]) - 1

    def weight(self, example: AnnotatedRow) -> float:
        return len(example.targets[self.head]) - 1

    def collate(self, examples: Rows, limits: Limits = None) -> Batch:
        targets: Sequence[np.ndarray] = [example.targets[self.head] for example in examples]
        source = pack([example.row.tokens for example in examples], limits)
        target = pack([ids[:-1] for ids in targets], limits)
        targets_T = pack_ids([ids[1:] for ids in targets], limits, IGNORED)
        return Batch(SourceTarget(source, target), {self.head: targets_T}, target.real)
