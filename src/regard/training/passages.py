"""Documents as rows with blanks, drawn anew each epoch: to learn from, and some to choose by."""

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from regard.data.documents import Documents
from regard.data.mlm_masking import TokenMasker
from regard.data.sampler import START, Cursor, Sampler, shuffled
from regard.data.sentence_pairs import Passages, full_rows, sentence_pairs
from regard.data.sources import DropCounts
from regard.ground.batch import IGNORED, Batch, BatchLimits, SpecialIds, TokenRow
from regard.ground.errors import BadInput
from regard.objectives.masked import Blanked, Masked
from regard.text.encoder_tokenizer import EncoderTokenizer
from regard.training.examples import SPLIT, shared_out
from regard.training.ranks import Ranks
from regard.training.recipe import Recipe

WINDOW = 16_384  # rows drawn at once: each of these ends in a batch that is not full
AHEAD = 64  # batches: more than are learned from while a window is drawn
DEV = 0  # what is held out is the same for every seed, and its blanks are too


@dataclass(frozen=True, eq=False)
class Drawn:
    """Rows by number; which tokens are blanks follows from (seed, epoch, number) alone."""

    passages: Passages
    blanks: TokenMasker
    seed: int

    def read(self, epoch: int, numbers: np.ndarray) -> list[Blanked]:
        """Rows as a model reads them in this epoch; all blanks are drawn at once."""
        found = self.passages.read(epoch, numbers)
        lengths = np.array([len(one.row.tokens) for one in found], np.int64)
        tokens = np.concatenate([one.row.tokens for one in found])
        drawn = self.blanks.draw_all(tokens, lengths, numbers, (self.seed, epoch))
        ends = np.cumsum(lengths)
        counts = np.searchsorted(drawn.places, ends)
        row = np.searchsorted(ends, drawn.places, side="right")
        tokens_of_rows = np.split(drawn.tokens, ends[:-1])
        places = np.split(drawn.places - (ends - lengths)[row], counts[:-1])
        words = np.split(drawn.originals, counts[:-1])
        return [
            Blanked(TokenRow(seen, one.row.segments), at, hidden, _class(one.follows))
            for one, seen, at, hidden in zip(found, tokens_of_rows, places, words, strict=True)
        ]

    def all(self, epoch: int = 0) -> list[Blanked]:
        """Every row of an epoch."""
        starts = range(0, self.passages.count, WINDOW)
        ranges = (np.arange(first, min(first + WINDOW, self.passages.count)) for first in starts)
        return [one for numbers in ranges for one in self.read(epoch, numbers)]


class Ahead(Sampler[Blanked]):
    """The same batches, read by a thread of its own while the model learns from those before."""

    def batches(self, start: Cursor = START) -> Iterator[tuple[Cursor, list[tuple[int, Blanked]]]]:
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
class Reading:
    """The documents of a recipe as rows: to learn from, and to choose by; ``sizes`` counts them."""

    recipe: Recipe
    documents: Documents
    train: Drawn
    dev: Sequence[Blanked]
    dropped: DropCounts
    sizes: dict[str, int]

    @property
    def mark(self) -> str:
        """What the training data is, in short: a resumed run says if it has changed."""
        return f"{len(self.documents)} documents, {self.documents.checksum:08x}"

    def sampler(self, objective: Masked) -> Sampler[Blanked]:
        """Batches without end."""
        limits = self.recipe.batches
        return Ahead(
            self.train.read,
            objective.length,
            self.train.passages.count,
            BatchLimits(limits.tokens, limits.rows, limits.longest),
            self.recipe.train.seed,
            window=WINDOW,
            mixed=limits.mixed,
            dropped=self.dropped,
        )

    def dev_batches(self, objective: Masked, ranks: Ranks) -> Iterator[Batch]:
        """My share of what is held out."""
        return shared_out(self.dev, objective, self.recipe, ranks)


def drawn(recipe: Recipe, text: EncoderTokenizer, documents: Documents, seed: int) -> Drawn:
    """Documents cut into rows and blanks as a recipe says."""
    asked, longest, marks = recipe.pretrain, recipe.batches.longest, SpecialIds(text.cls, text.sep)
    if asked.next_sentence:
        rows = Passages(
            documents,
            marks,
            lambda epoch: sentence_pairs(documents, longest, (seed, epoch), asked.short),
        )
    else:
        same = full_rows(documents, longest)
        rows = Passages(documents, marks, lambda epoch: same)
    begins = ~text.continues if asked.whole_words else None
    special = np.isin(np.arange(len(text.words)), list(text.special))
    return Drawn(rows, TokenMasker(text.mask, special, begins, asked.rate), seed)


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


def _class(follows: int | None) -> int:
    return IGNORED if follows is None else follows
