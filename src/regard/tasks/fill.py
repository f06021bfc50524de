"""Blanks filled: texts with masks in, the most probable words for each mask out."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from regard.ground.batch import Ids, TokenRow
from regard.ground.checks import check_whole
from regard.ground.errors import BadInput, BadItem
from regard.models.build.trunk_with_heads import TrunkWithHeadsModule
from regard.tasks.inputs import check_texts
from regard.tasks.rows import Runner, numbers
from regard.text.encoder_tokenizer import EncoderTokenizer


@dataclass(frozen=True)
class Filling:
    """A word (or a piece of one, such as ##ing), and how probable it is."""

    word: str
    probability: float


@dataclass(frozen=True)
class Filled:
    """A text with the best word in each of its blanks, and the ``top`` words of each blank."""

    text: str
    blanks: tuple[tuple[Filling, ...], ...]


@dataclass(frozen=True, eq=False)
class Filler(Runner):
    """An encoder that names hidden words, ``top`` of them for each mask."""

    model: TrunkWithHeadsModule
    text: EncoderTokenizer
    rows: int = 256
    longest: int | None = None
    top: int = 5

    def __post_init__(self) -> None:
        if "mlm" not in self.model.heads:
            raise BadInput("this encoder names no words: it has no layer to fill blanks with")
        check_whole("top: the number of words", self.top, 1, len(self.text.words))

    @property
    def mask(self) -> str:
        """How a blank is written."""
        return self.text.names["mask_token"]

    def row(self, text: str, number: int) -> TokenRow:
        """How a text is read, all its masks included; its number is for the message."""
        ids = self.text.masked(text)
        row = self.text.row(ids, longest=self.longest)
        if self.text.mask not in ids:
            raise BadItem(number, f"there is no {self.mask} in it")
        if self._masks(row.tokens) < self._masks(ids):
            count = len(row.tokens)
            raise BadItem(number, f"a {self.mask} stands behind the {count} tokens read")
        return row

    @torch.inference_mode()
    def predict(self, asked: Sequence[str]) -> list[Filled]:
        """The words for every mask in each text, which has one or more."""
        asked = check_texts(asked)
        rows = [self.row(one, number) for number, one in enumerate(asked, start=1)]
        found: list[tuple[tuple[Filling, ...], ...]] = [()] * len(rows)
        for chosen, read in self.batches(rows):
            places_N = (read.tokens_T == self.text.mask).nonzero()[:, 0]
            outputs = self.model(read, positions={"mlm": places_N})
            logits_NV = numbers(outputs.by_head["mlm"])
            probable_NV = torch.softmax(logits_NV, dim=-1)[:, : len(self.text.words)]
            probable_NW, best_NW = probable_NV.topk(self.top)
            fillings = zip(best_NW.tolist(), probable_NW.tolist(), strict=True)
            named = iter([self._named(*one) for one in fillings])
            for i in chosen:
                found[i] = tuple(next(named) for _ in range(self._masks(rows[i].tokens)))
        return [self._filled(text, one) for text, one in zip(asked, found, strict=True)]

    def _masks(self, tokens: Ids) -> int:
        return int(np.equal(tokens, self.text.mask).sum())

    def _named(self, best: list[int], probable: list[float]) -> tuple[Filling, ...]:
        return tuple(map(Filling, self.text.words.pieces(best), probable))

    def _filled(self, text: str, blanks: tuple[tuple[Filling, ...], ...]) -> Filled:
        filled, *others = text.split(self.mask)
        for (best, *_), part in zip(blanks, others, strict=True):
            filled = self.text.join(filled, best.word) + part
        return Filled(filled, blanks)
