"""Permutation language modelling (Yang et al., 2019, section 2).

A factorization order is drawn for each row, or for each chunk of it, by (seed, epoch, index of the
row). Its last tokens, one in six, are predicted, each from its position and the tokens before it in
the order. No mask token is read. As in the code of the paper, spans of whole words are predicted,
each in a context of K times its length. All tokens that are neither predicted nor special come
first in the order, together: they see each other, and all others see them. Predicted and special
tokens follow in random order. The tokens of a chunk come after all tokens of the chunks before it;
the code of the paper so divides rows into halves.

With a memory (section 2.4), a batch holds the next row of each of several streams of text, which
attends to the last states of the row before it. The paper's two-segment rows, halves of which are
reused, are left out: rows follow each other without overlap.
"""

from dataclasses import dataclass
from typing import NamedTuple, cast

import numpy as np
import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from regard.core.batch import IGNORED, TokenRow
from regard.core.config import Config
from regard.core.errors import BadInput
from regard.data.counter_rng import streams, uniform
from regard.data.rows.block_plans import FramedBlocks, TokenStream
from regard.data.rows.documents import Documents
from regard.data.rows.row_plans import PlanRows
from regard.models.papers.xlnet.two_stream import PermutationLMHead, TwoStreamModule
from regard.models.trunk_with_heads import TrunkWithHeads, TrunkWithHeadsModule
from regard.objectives.rows import Annotate, AnnotatedRow, RowBatch, RowObjective, Rows
from regard.text.templates import RowBuilder
from regard.text.tokenizers.encoder_tokenizer import EncoderTokenizer
from regard.text.tokenizers.row_tokenizer import RowTokenizer

FACTORIZATION = 5  # appended to the key, which other draws use too
CONTEXT = -1  # the order of tokens that are only seen
# Counters in the stream of a row: of orders, of single tokens, of spans (two for each).
ORDER, SINGLE, SPAN = 0, 1 << 16, 2 << 16


class Factorization(NamedTuple):
    """Order of each token of a row, and the sorted positions of the predicted tokens."""

    orders: np.ndarray
    predicted: np.ndarray


@dataclass(frozen=True, eq=False)
class FactorizationSampler:
    """Sampler of factorization orders; ``special`` and ``word_starts`` are masks over ids.

    One token in ``one_in`` is predicted, in spans of up to ``words`` words, n of them with
    probability ∝ 1/n. Each chunk of ``chunk`` tokens of a row has its own order; 0: the whole row.
    """

    special: np.ndarray
    word_starts: np.ndarray
    one_in: int = 6
    words: int = 5
    chunk: int = 0

    def draw(
        self, rows: list[TokenRow], indices: np.ndarray, key: tuple[int, ...]
    ) -> list[Factorization]:
        """Draw factorizations of rows, which depend on their indices and the key alone."""
        tokens = (np.asarray(row.tokens) for row in rows)
        return [*map(self._of_row, tokens, streams((*key, FACTORIZATION), indices))]

    def count(self, length: int, start: int = 0) -> int:
        """Maximum number of tokens to predict in a chunk; at least 1 in the first of a row.

        Fewer are predicted if the chunk has fewer tokens that are not special.
        """
        return max(int(start == 0), length // self.one_in)

    def _of_row(self, tokens: np.ndarray, stream: np.ndarray) -> Factorization:
        size = self.chunk or max(1, len(tokens))
        starts = range(0, max(1, len(tokens)), size)
        chunks = [self._of_chunk(tokens[at : at + size], stream, at) for at in starts]
        # All orders of a chunk are above those of the chunk before, whose highest is its size - 1.
        orders = [chunk.orders + at + at // size for chunk, at in zip(chunks, starts, strict=True)]
        predicted = [chunk.predicted + at for chunk, at in zip(chunks, starts, strict=True)]
        return Factorization(np.concatenate(orders), np.concatenate(predicted))

    def _of_chunk(self, tokens: np.ndarray, stream: np.ndarray, start: int) -> Factorization:
        """The factorization of the tokens of a chunk that begins at ``start``."""
        special, every = self.special[tokens], start + np.arange(len(tokens))
        count = self.count(len(tokens), start)
        chosen = self._spans(tokens, stream, every, count)
        singles = uniform(stream, SINGLE + every)
        singles[special | chosen] = np.inf
        missing = min(count, int((~special).sum())) - int(chosen.sum())
        chosen[np.argsort(singles, kind="stable")[: max(0, missing)]] = True
        ranks = np.argsort(np.argsort(uniform(stream, ORDER + every), kind="stable"))
        orders = np.where(chosen | special, ranks, CONTEXT)
        return Factorization(orders, np.flatnonzero(chosen))

    def _spans(
        self, tokens: np.ndarray, stream: np.ndarray, every: np.ndarray, count: int
    ) -> np.ndarray:
        """Mask of the tokens in spans, at most ``count``; ``every`` are the positions."""
        special, chosen, left = self.special[tokens], np.zeros(len(tokens), bool), count
        starts = np.flatnonzero(self.word_starts[tokens] | special)
        lengths = uniform(stream, SPAN + 2 * every)
        contexts = uniform(stream, SPAN + 2 * every + 1)
        sizes = 1 + np.searchsorted(self._cumulated, lengths, side="right")
        at = number = 0
        while left and at < len(tokens):
            words = min(int(sizes[number]), left)
            context = words * self.one_in
            before = int(contexts[number] * context)
            first = int(np.searchsorted(starts, at + before))
            if first + words >= len(starts):
                break
            begin, end = int(starts[first]), int(starts[first + words])
            if end - begin <= left and not special[begin:end].any():
                chosen[begin:end] = True
                left -= end - begin
            at, number = end + context - before, number + 1
        return chosen

    @property
    def _cumulated(self) -> np.ndarray:
        """Cumulative distribution of the number of words of a span, without the last value."""
        shares = 1 / np.arange(1, self.words + 1)
        return np.cumsum(shares / shares.sum())[:-1]


class PermutationLMConfig(Config):
    """The table ``[objective.permutation-lm]``."""

    one_in: int = Field(6, ge=2)
    """One token in this many is predicted (K in the paper)."""
    words: int = Field(5, ge=1, le=10)
    """The maximum number of words of a predicted span; n words have a probability ∝ 1/n."""
    chunk: int = Field(0, ge=0)
    """The size of the parts of a row over which orders are drawn (256 of 512 tokens in the
    published code); a part sees only the parts before it. 0: orders are drawn over whole rows."""
    memory: int = Field(0, ge=0)
    """The number of tokens before a row whose states it attends to (384 in the paper); 0: none.
    With a memory, rows are read in the order of the text, in a stream for each row of a batch."""

    @model_validator(mode="after")
    def _chunks_have_targets(self) -> "PermutationLMConfig":
        if 0 < self.chunk < self.one_in:
            raise ValueError(f"chunk must be 0, or at least one_in ({self.one_in})")
        return self


@dataclass(frozen=True)
class PermutationLM(RowObjective):
    """Permutation-LM objective: tokens in random orders; mean loss over the predicted tokens."""

    name, config, head = "permutation-lm", PermutationLMConfig, PermutationLMHead.name
    makes_rows = orders_rows = True
    one_in: int = 6
    words: int = 5
    memory: int = 0
    smoothing: float = 0.0
    chunk: int = 0

    def make_head(self) -> PermutationLMHead:
        return PermutationLMHead()

    def check(self, facts: TrunkWithHeads) -> None:
        if not facts.trunk.stack.has_queries:
            raise BadInput(f"objective.{self.name}: only XLNet's stack has a query stream")

    def rows(self, documents: Documents, template: RowBuilder, longest: int, seed: int) -> PlanRows:
        stream = TokenStream(documents, template.separator)
        plan = FramedBlocks(stream, template.frame(1), longest)
        return lambda epoch: plan

    def annotator(self, tokenizer: RowTokenizer) -> Annotate:
        tokenizer = cast(EncoderTokenizer, tokenizer)
        special = np.isin(np.arange(len(tokenizer.words)), list(tokenizer.special))
        settings = self.one_in, self.words, self.chunk
        sampler = FactorizationSampler(special, ~tokenizer.continues, *settings)

        def annotate(rows: Rows, indices: np.ndarray, key: tuple[int, ...]) -> list[AnnotatedRow]:
            samples = sampler.draw([example.row for example in rows], indices, key)
            return [
                example.annotated(self.head, at, np.asarray(example.row.tokens)[at], orders=orders)
                for example, (orders, at) in zip(rows, samples, strict=True)
            ]

        return annotate

    def weight(self, example: AnnotatedRow) -> float:
        return len(example.positions[self.head])

    def collate_targets(self, batch: RowBatch) -> tuple[Tensor, Tensor]:
        """Return the predicted positions, the same number for each row, and their tokens.

        Rows are padded, with their first token as ignored position, to the largest number of a row
        or, with ``limits``, of the longest possible row.
        """
        chosen = batch.positions(self.head)
        size = max(map(len, chosen), default=0)
        if batch.limits is not None:
            size = max(1, batch.limits.longest // self.one_in)
        shape = batch.rows, size
        positions, targets = np.zeros(shape, np.int64), np.full(shape, IGNORED)
        rows = zip(batch.starts, chosen, batch.targets(self.head), strict=True)
        for row, (start, at, tokens) in enumerate(rows):
            positions[row] = start
            positions[row, : len(at)] = at
            targets[row, : len(at)] = tokens
        return torch.from_numpy(positions.ravel()), torch.from_numpy(targets.ravel())

    @property
    def carries_state(self) -> bool:
        return self.memory > 0

    def initial_state(self, model: nn.Module, streams: int) -> object:
        trunk = cast(TwoStreamModule, cast(TrunkWithHeadsModule, model).trunk)
        return trunk.new_memory(streams, self.memory)

    def expected_positions(self, tokens: int) -> int:
        return tokens // self.one_in
