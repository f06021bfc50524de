"""Rows for pre-training: pairs of passages for next-sentence prediction, or full rows of sentences.

Pairs follow Devlin et al., 2018 (section 3.1, task 2, and their code); full rows follow Liu et al.,
2019 (section 4.2, FULL-SENTENCES). Rows are planned from lengths alone, without reading tokens.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from regard.data.counter_rng import below, heads, streams, uniform
from regard.data.documents import Documents
from regard.ground.batch import TokenRow
from regard.ground.errors import BadInput
from regard.text.templates import RowFrame

IS_NEXT, NOT_NEXT = 0, 1  # labels of the second passage, as in transformers
DRAWS = 4  # random numbers of each pair, from the stream of its document
PAIRS, CUTS = 1, 2  # appended to the key, which other draws use too


class Passage(NamedTuple):
    """A row, and the label of its second part (IS_NEXT or NOT_NEXT; None if there is one part)."""

    row: TokenRow
    follows: int | None


@dataclass(frozen=True, eq=False)
class Plan:
    """The rows of an epoch: row i has the spans first[i] to first[i + 1] (exclusive).

    A span is tokens `begin` to `end` (exclusive) of one document, numbered through all documents.
    `frame` holds the special tokens around the spans of a row.
    """

    frame: RowFrame
    begin: np.ndarray
    end: np.ndarray
    first: np.ndarray
    follows: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.first) - 1

    @cached_property
    def lengths(self) -> np.ndarray:
        """Tokens of every row, special tokens included."""
        between = len(self.frame.between)
        ends = np.append(0, np.cumsum(self.end - self.begin + between))[self.first]
        return np.diff(ends) + len(self.frame.before) + len(self.frame.after) - between


def sentence_pairs(
    documents: Documents, frame: RowFrame, longest: int, key: tuple[int, ...], short: float = 0.1
) -> Plan:
    """Successive sentences up to a target length, in two parts; half of the second ones are random.

    A random second part comes from another document; the sentences that it replaces are used again.
    The target length is `longest`, or, for a share `short` of the documents, a random length. All
    random numbers depend on `key`, (seed, epoch), and the number of the document.
    """
    room, count = longest - frame.specials, len(documents)
    if room < 2:
        raise _too_short(longest, "two passages", frame.specials, 2)
    if count < 2:
        raise BadInput(f"{documents.name}: a next sentence from elsewhere needs a second document")
    stream = streams((*key, PAIRS), np.arange(count))
    target = np.where(uniform(stream, 0) < short, 2 + below(room - 1, stream, 1), room)
    rounds = [*_rounds(documents, stream, target)]
    document, begin, end, follows = (np.concatenate(one) for one in zip(*rounds, strict=True))
    order = np.argsort(document, kind="stable")
    begin, end = _cut(begin[order], end[order], room, key)
    first = 2 * np.arange(len(order) + 1)
    return Plan(frame, begin.ravel(), end.ravel(), first, follows[order])


def _rounds(
    documents: Documents, stream: np.ndarray, target: np.ndarray
) -> Iterator[tuple[np.ndarray, ...]]:
    """One pair of every document with sentences left: (document, begins, ends, label)."""
    sentence, token, count = documents.first_sentence, documents.first_token, len(documents)
    live, start, drawn = np.arange(count), sentence[:-1], 2
    while len(live):
        draws, goal = stream[live], target[live]
        end = np.minimum(_reaching(token, start, goal), sentence[live + 1])
        middle = start + 1 + below(end - start - 1, draws, drawn)
        elsewhere = (end - start == 1) | (uniform(draws, drawn + 1) < 0.5)

        other = below(count - 1, draws, drawn + 2)
        other += other >= live
        begin_other = sentence[other] + below(
            sentence[other + 1] - sentence[other], draws, drawn + 3
        )
        left = np.maximum(1, goal - (token[middle] - token[start]))
        end_other = np.minimum(_reaching(token, begin_other, left), sentence[other + 1])

        begin_second = np.where(elsewhere, begin_other, middle)
        end_second = np.where(elsewhere, end_other, end)
        begins, ends = np.stack([start, begin_second], 1), np.stack([middle, end_second], 1)
        follows = np.where(elsewhere, NOT_NEXT, IS_NEXT).astype(np.int8)
        yield live, token[begins], token[ends], follows

        start = np.where(elsewhere, middle, end)
        more = start < sentence[live + 1]
        live, start, drawn = live[more], start[more], drawn + DRAWS


def _reaching(token: np.ndarray, start: np.ndarray, count: np.ndarray) -> np.ndarray:
    """The first sentence before which at least `count` tokens follow the beginning of `start`."""
    return np.searchsorted(token, token[start] + count)


def _cut(
    begin: np.ndarray, end: np.ndarray, room: int, key: tuple[int, ...]
) -> tuple[np.ndarray, np.ndarray]:
    """Truncate pairs: tokens are removed one by one from the longer part, at a random end.

    Of two equally long parts, the second is truncated first.
    """
    length = end - begin
    first = np.minimum(length[:, 0], np.maximum(room - length[:, 1], (room + 1) // 2))
    kept = np.stack([first, np.minimum(length[:, 1], room - first)], 1)
    lost = length - kept
    stream = streams((*key, CUTS), np.arange(lost.size))
    before = heads(lost.ravel(), stream).reshape(lost.shape)
    return begin + before, begin + before + kept


def full_rows(documents: Documents, frame: RowFrame, longest: int) -> Plan:
    """As many successive sentences as fit, across documents, with a separator between documents.

    A sentence longer than a row is split. Every epoch has the same rows.
    """
    room, between = longest - frame.specials, len(frame.between)
    if room < 1:
        raise _too_short(longest, "a passage", frame.specials, 1)
    token = _no_longer(documents.first_token, room)
    document = np.searchsorted(documents.borders, token, side="right") - 1
    # A separator before every document but the first of a row: counted by the document's number.
    separators = between * document[:-1]
    begins, ends = token[:-1] + separators, token[1:] + separators
    after = np.searchsorted(ends, begins + room, side="right").tolist()
    starts = [0]
    while starts[-1] < len(after):
        starts.append(after[starts[-1]])
    rows = token[starts]
    begin = np.union1d(rows[:-1], documents.borders[:-1])
    return Plan(frame, begin, np.append(begin[1:], token[-1]), np.searchsorted(begin, rows))


def _too_short(longest: int, texts: str, specials: int, tokens: int) -> BadInput:
    needed = f"{texts} and {specials} special tokens need {specials + tokens} at least"
    return BadInput(f"rows of {longest} tokens: {needed}")


def _no_longer(token: np.ndarray, room: int) -> np.ndarray:
    """The first token of every sentence after splitting those longer than `room`."""
    lengths = np.diff(token)
    parts = -(-lengths // room)
    number = np.arange(parts.sum()) - np.repeat(np.cumsum(parts) - parts, parts)
    return np.append(np.repeat(token[:-1], parts) + number * room, token[-1])


@dataclass(frozen=True, eq=False)
class Passages:
    """The rows of `plan(epoch)` by number.

    All epochs have as many rows as the first one. The rows of a plan with more or fewer are spread
    over these numbers: some are skipped, or read twice.
    """

    documents: Documents
    plan: Callable[[int], Plan]

    @cached_property
    def planned(self) -> Callable[[int], Plan]:
        """`plan`, with a cache of one epoch."""
        return lru_cache(maxsize=1)(self.plan)

    @cached_property
    def count(self) -> int:
        return len(self.planned(0))

    def read(self, epoch: int, indices: np.ndarray) -> list[Passage]:
        """The rows of these numbers."""
        return self.passages(self.planned(epoch), self._rows(epoch, indices))

    def lengths(self, epoch: int, indices: np.ndarray) -> np.ndarray:
        """The lengths of these rows."""
        return self.planned(epoch).lengths[self._rows(epoch, indices)]

    def _rows(self, epoch: int, indices: np.ndarray) -> np.ndarray:
        """Their numbers in the plan of the epoch."""
        return np.asarray(indices, np.int64) * len(self.planned(epoch)) // self.count

    def passages(self, plan: Plan, rows: np.ndarray) -> list[Passage]:
        """Read rows of a plan."""
        frame = plan.frame
        counts = plan.first[rows + 1] - plan.first[rows]
        opening = np.cumsum(counts) - counts  # each row's first span, among those asked for
        number = np.arange(counts.sum()) - np.repeat(opening, counts)
        span = np.repeat(plan.first[rows], counts) + number
        begin, end = plan.begin[span], plan.end[span]
        opens, closes = number == 0, number == np.repeat(counts, counts) - 1
        behind = np.where(closes, len(frame.after), len(frame.between))
        size = end - begin + behind + opens * len(frame.before)
        ends = np.append(0, np.cumsum(size))
        first = ends[opening]

        tokens = np.empty(ends[-1], np.int32)
        part = np.minimum(number, len(frame.segments) - 1)
        segments = np.repeat(np.array(frame.segments, np.int32)[part], size)
        self._copy(begin, end, tokens, ends[:-1] + opens * len(frame.before))
        specials = (
            (frame.before, first),
            (frame.between, (ends[1:] - behind)[~closes]),
            (frame.after, (ends[1:] - behind)[closes]),
        )
        for special, places in specials:
            for offset, (token, segment) in enumerate(special):
                tokens[places + offset], segments[places + offset] = token, segment
        follows = [None] * len(rows) if plan.follows is None else plan.follows[rows].tolist()
        bounds = [*first.tolist(), len(tokens)]
        return [
            Passage(TokenRow(tokens[a:b], segments[a:b]), one)
            for a, b, one in zip(bounds[:-1], bounds[1:], follows, strict=True)
        ]

    def _copy(
        self, begin: np.ndarray, end: np.ndarray, tokens: np.ndarray, places: np.ndarray
    ) -> None:
        """Copy spans of the documents to `places` in `tokens`."""
        borders = self.documents.borders
        document = np.searchsorted(borders, begin, side="right") - 1
        source = begin - borders[document]
        columns = (document, source, end - begin, places)
        for d, a, length, b in zip(*(one.tolist() for one in columns), strict=True):
            tokens[b : b + length] = self.documents.rows[d][a : a + length]
