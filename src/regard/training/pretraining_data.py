"""Documents as rows with blanks, drawn anew each epoch: to learn from, and some to choose by."""

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from regard.data.documents import Documents
from regard.data.sampler import START, Cursor, Sampler, shuffled
from regard.data.sentence_pairs import Passages
from regard.data.sources import DropCounts
from regard.ground.batch import Batch, BatchLimits
from regard.ground.errors import BadInput
from regard.models.facts import SentencePairHead
from regard.objectives.rows import Annotate, AnnotatedRow
from regard.objectives.sum import Sum
from regard.text.encoder_tokenizer import EncoderTokenizer
from regard.training.distributed import World
from regard.training.examples import SPLIT, shared_out

WINDOW = 16_384  # rows drawn at once: each of these ends in a batch that is not full
AHEAD = 64  # batches: more than are learned from while a window is drawn
PAIR = SentencePairHead.name
DEV = 0  # what is held out is the same for every seed, and its blanks are too


@dataclass(frozen=True, eq=False)
class PretrainingRows:
    """Rows by number; which tokens are blanks follows from (seed, epoch, number) alone."""

    passages: Passages
    annotators: Sequence[Annotate]
    seed: int

    def read(self, epoch: int, numbers: np.ndarray) -> list[AnnotatedRow]:
        """Rows as a model reads them in this epoch; the targets of all are drawn at once."""
        rows = [
            AnnotatedRow(
                passage.row, {}, {} if passage.follows is None else {PAIR: passage.follows}
            )
            for passage in self.passages.read(epoch, numbers)
        ]
        for annotate in self.annotators:
            rows = annotate(rows, numbers, (self.seed, epoch))
        return rows

    def all(self, epoch: int = 0) -> list[AnnotatedRow]:
        """Every row of an epoch."""
        starts = range(0, self.passages.count, WINDOW)
        ranges = (np.arange(first, min(first + WINDOW, self.passages.count)) for first in starts)
        return [one for numbers in ranges for one in self.read(epoch, numbers)]


class PrefetchSampler(Sampler[AnnotatedRow]):
    """The same batches, read by a thread of its own while the model learns from those before."""

    def batches(
        self, start: Cursor = START
    ) -> Iterator[tuple[Cursor, list[tuple[int, AnnotatedRow]]]]:
        """From ``start`` on."""
        stream = super().batches(start)
        pool = ThreadPoolExecutor(1)
        waiting: deque[Future] = deque()
        try:
            while True:
                while len(waiting) < AHEAD:
                    waiting.append(pool.submit(next, stream))
                yield waiting.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)


@dataclass(frozen=True, eq=False)
class PretrainingData:
    """The documents of a recipe as rows: to learn from, and to choose by; ``sizes`` counts them."""

    recipe: Any
    documents: Documents
    train: PretrainingRows
    dev: Sequence[AnnotatedRow]
    dropped: DropCounts
    sizes: dict[str, int]
    labels: ClassVar[None] = None  # there are no labels to learn

    @property
    def mark(self) -> str:
        """What the training data is, in short: a resumed run says if it has changed."""
        return f"{len(self.documents)} documents, {self.documents.checksum:08x}"

    def sampler(self, objective: Sum) -> Sampler[AnnotatedRow]:
        """Batches without end."""
        limits = self.recipe.batches
        return PrefetchSampler(
            self.train.read,
            objective.length,
            self.train.passages.count,
            BatchLimits(limits.tokens, limits.rows, limits.longest),
            self.recipe.train.seed,
            window=WINDOW,
            mixed=limits.mixed,
            dropped=self.dropped,
        )

    def dev_batches(self, objective: Sum, world: World) -> Iterator[Batch]:
        """My share of what is held out."""
        return shared_out(self.dev, objective, self.recipe, world)


def make_rows(
    objective: Sum, longest: int, text: EncoderTokenizer, documents: Documents, seed: int
) -> PretrainingRows:
    """Documents as rows with the targets of an objective."""
    rows = objective.rows(documents, text.template, longest, seed)
    annotators = [member.annotator(text) for member in objective.members]
    return PretrainingRows(
        rows, [annotate for annotate in annotators if annotate is not None], seed
    )


def held_out(count: int, wanted: int) -> tuple[np.ndarray, np.ndarray]:
    """Which of so many documents are to choose by, and which to learn from, each in order."""
    if wanted >= count:
        raise BadInput(f"data.dev.held_out: {wanted:,} of {count:,} leaves nothing to learn")
    order_N = shuffled(np.arange(count), count, SPLIT)
    return np.sort(order_N[:wanted]), np.sort(order_N[wanted:])


def sample(texts: Iterator[str], share: float) -> Iterator[str]:
    """As many of the texts as have this share of all characters, evenly taken, and no more."""
    seen = taken = 0
    for text in texts:
        seen += len(text)
        if taken + len(text) <= seen * share:
            taken += len(text)
            yield text
