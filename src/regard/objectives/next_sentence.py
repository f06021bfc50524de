"""Next-sentence prediction (Devlin et al., 2018, section 3.1, task 2) and sentence order.

A row holds two passages. In half of the rows the second passage follows the first in its document,
in the others it comes from another document; the model predicts which, from the pooled state.
Sentence-order prediction (Lan et al., 2019, section 3.1) instead swaps two consecutive passages in
half of the rows, so that topics do not give the answer away.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from pydantic import Field

from regard.core.config import Config
from regard.core.errors import BadInput
from regard.data.counter_rng import below, binomial, streams, uniform
from regard.data.rows.documents import Documents
from regard.data.rows.row_plans import PlanRows, RowPlan, room_in
from regard.models.label_heads import SentencePairHead
from regard.models.trunk_with_heads import TrunkWithHeads
from regard.objectives.rows import RowObjective
from regard.text.templates import RowBuilder, RowFrame

Key = tuple[int, ...]
IS_NEXT, NOT_NEXT = 0, 1  # labels of the second passage, as in transformers
IN_ORDER, SWAPPED = 0, 1  # labels of the order of both passages, as in transformers
DRAWS = 4  # random numbers of each pair, from the stream of its document
PAIRS, CUTS = 1, 2  # appended to the key, which other draws use too


def sentence_pairs(
    documents: Documents, frame: RowFrame, longest: int, key: Key, short: float = 0.1
) -> RowPlan:
    """Plan of pairs of passages of successive sentences; half of the second passages are random.

    A random second passage comes from another document; the sentences that it replaces are used
    again. The target length of a row is `longest`, or, for a share `short` of the documents, a
    random length. All random numbers depend on `key`, (seed, epoch), and the number of the
    document.
    """
    if len(documents) < 2:
        raise BadInput(f"{documents.name}: next-sentence prediction needs at least two documents")
    return _plan(documents, frame, longest, key, short, _with_random_seconds)


def ordered_pairs(
    documents: Documents, frame: RowFrame, longest: int, key: Key, short: float = 0.1
) -> RowPlan:
    """Plan of pairs of passages of successive sentences, which are swapped in half of the rows.

    Both passages come from one document, split between two of its sentences at random; a single
    last sentence is left out. (The authors' code pairs it with another document.) Lengths and
    random numbers are as in `sentence_pairs`.
    """
    if not (np.diff(documents.first_sentence) > 1).any():
        raise BadInput(f"{documents.name}: sentence order needs documents of several sentences")
    return _plan(documents, frame, longest, key, short, _with_swapped_parts)


Rounds = Iterator[tuple[np.ndarray, ...]]
"""One pair of every document with sentences left: (document, begins, ends, label)."""


Pair = Callable[[Documents, np.ndarray, np.ndarray], Rounds]


def _plan(
    documents: Documents, frame: RowFrame, longest: int, key: Key, short: float, pair: Pair
) -> RowPlan:
    """Plan of all pairs that ``pair`` makes, by the stream and target length of every document."""
    room = room_in(frame, longest, "two passages", 2)
    stream = streams((*key, PAIRS), np.arange(len(documents)))
    target = np.where(uniform(stream, 0) < short, 2 + below(room - 1, stream, 1), room)
    rounds = [*pair(documents, stream, target)]
    document, begin, end, label = map(np.concatenate, zip(*rounds, strict=True))
    order = np.argsort(document, kind="stable")
    begin, end = _cut(begin[order], end[order], room, key)
    first = 2 * np.arange(len(order) + 1)
    return RowPlan(documents, frame, begin.ravel(), end.ravel(), first, label[order])


def _with_random_seconds(documents: Documents, stream: np.ndarray, target: np.ndarray) -> Rounds:
    """Pairs whose second part comes from another document in half of the cases."""
    sentence, token, count = documents.first_sentence, documents.first_token, len(documents)
    live, start, drawn = np.arange(count), sentence[:-1], 2
    while len(live):
        draws, goal = stream[live], target[live]
        end = np.minimum(_reaching(token, start, goal), sentence[live + 1])
        middle = start + 1 + below(end - start - 1, draws, drawn)
        elsewhere = (end - start == 1) | (uniform(draws, drawn + 1) < 0.5)

        other = below(count - 1, draws, drawn + 2)
        other += other >= live
        size = sentence[other + 1] - sentence[other]
        begin_other = sentence[other] + below(size, draws, drawn + 3)
        left = np.maximum(1, goal - (token[middle] - token[start]))
        end_other = np.minimum(_reaching(token, begin_other, left), sentence[other + 1])

        begin_second = np.where(elsewhere, begin_other, middle)
        end_second = np.where(elsewhere, end_other, end)
        begins, ends = np.stack([start, begin_second], 1), np.stack([middle, end_second], 1)
        label = np.where(elsewhere, NOT_NEXT, IS_NEXT).astype(np.int8)
        yield live, token[begins], token[ends], label

        start = np.where(elsewhere, middle, end)
        more = start < sentence[live + 1]
        live, start, drawn = live[more], start[more], drawn + DRAWS


def _with_swapped_parts(documents: Documents, stream: np.ndarray, target: np.ndarray) -> Rounds:
    """Pairs of at least two sentences; half of the pairs have the later part first."""
    sentence, token = documents.first_sentence, documents.first_token
    live = np.flatnonzero(np.diff(sentence) > 1)
    start, drawn = sentence[live], 2
    while len(live):
        draws, last = stream[live], sentence[live + 1]
        end = np.minimum(np.maximum(_reaching(token, start, target[live]), start + 2), last)
        middle = start + 1 + below(end - start - 1, draws, drawn)
        swapped = uniform(draws, drawn + 1) < 0.5
        begins, ends = np.stack([start, middle], 1), np.stack([middle, end], 1)
        begins[swapped], ends[swapped] = begins[swapped, ::-1], ends[swapped, ::-1]
        label = np.where(swapped, SWAPPED, IN_ORDER).astype(np.int8)
        yield live, token[begins], token[ends], label

        more = last - end > 1
        live, start, drawn = live[more], end[more], drawn + DRAWS


def _reaching(token: np.ndarray, start: np.ndarray, count: np.ndarray) -> np.ndarray:
    """First sentence that begins at least `count` tokens after the beginning of `start`."""
    return np.searchsorted(token, token[start] + count)


def _cut(begin: np.ndarray, end: np.ndarray, room: int, key: Key) -> tuple[np.ndarray, np.ndarray]:
    """Truncate pairs: tokens are removed one by one from the longer part, at a random end.

    Of two equally long parts, the second is truncated first.
    """
    length = end - begin
    first = np.minimum(length[:, 0], np.maximum(room - length[:, 1], (room + 1) // 2))
    size = np.stack([first, np.minimum(length[:, 1], room - first)], 1)
    lost = length - size
    stream = streams((*key, CUTS), np.arange(lost.size))
    before = binomial(lost.ravel(), stream).reshape(lost.shape)
    return begin + before, begin + before + size


class SentencePairConfig(Config):
    """Base class of the recipe tables of objectives over pairs of passages."""

    short: float = Field(0.1, ge=0, le=1)
    """The share of documents whose rows have any length instead of being full."""


class NextSentenceConfig(SentencePairConfig):
    """The table ``[objective.next-sentence]``."""


@dataclass(frozen=True)
class SentencePairObjective(RowObjective):
    """Base class of objectives that classify pairs of passages; ``pairs`` plans an epoch's rows."""

    head = SentencePairHead.name
    makes_rows = True
    pairs: ClassVar[Callable[..., RowPlan]]
    short: float = 0.1
    smoothing: float = 0.0

    def make_head(self) -> SentencePairHead:
        return SentencePairHead()

    def check(self, facts: TrunkWithHeads) -> None:
        if facts.trunk.embed.segments < 2:
            raise BadInput(f"objective.{self.name}: the model needs two segments, one per passage")

    def rows(self, documents: Documents, template: RowBuilder, longest: int, seed: int) -> PlanRows:
        frame, pairs = template.frame(2), type(self).pairs
        return lambda epoch: pairs(documents, frame, longest, (seed, epoch), self.short)

    def metrics(self, loss: float, accuracy: float) -> dict[str, float]:
        return {self.name.replace("-", "_"): accuracy}


@dataclass(frozen=True)
class NextSentence(SentencePairObjective):
    """Next-sentence objective: whether the second passage follows the first in its document."""

    name, config, pairs = "next-sentence", NextSentenceConfig, sentence_pairs


class SentenceOrderConfig(SentencePairConfig):
    """The table ``[objective.sentence-order]``."""


@dataclass(frozen=True)
class SentenceOrder(SentencePairObjective):
    """Sentence-order objective: whether two consecutive passages are in order or swapped."""

    name, config, pairs = "sentence-order", SentenceOrderConfig, ordered_pairs
