"""Filling masks: texts with mask tokens in, the most probable tokens for each mask out."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import torch

from regard.ground.batch import Ids, PackedTokens, TokenRow
from regard.ground.checks import check_whole
from regard.ground.errors import BadInput, BadItem
from regard.models.build.trunk_with_heads import TrunkWithHeadsModule
from regard.models.facts import MLMHead
from regard.tasks.batch_runner import Predictor, finite, in_order
from regard.tasks.inputs import check_texts
from regard.text.encoder_tokenizer import EncoderTokenizer


@dataclass(frozen=True)
class TokenFill:
    """A word (or a piece of one, such as ##ing), and how probable it is."""

    word: str
    probability: float


@dataclass(frozen=True)
class FilledText:
    """A text with the best word in each of its blanks, and the ``top`` words of each blank."""

    text: str
    blanks: tuple[tuple[TokenFill, ...], ...]


@dataclass(frozen=True, eq=False)
class MaskFiller(Predictor):
    """An encoder that names hidden words, ``top`` of them for each mask."""

    model: TrunkWithHeadsModule
    tokenizer: EncoderTokenizer
    top: int = 5

    def __post_init__(self) -> None:
        if MLMHead.name not in self.model.heads:
            raise BadInput("this encoder cannot fill masks: it has no masked-LM head")
        check_whole("top: the number of words", self.top, 1, len(self.tokenizer.words))

    @property
    def mask(self) -> str:
        """How a blank is written."""
        return self.tokenizer.names["mask_token"]

    def row(self, text: str, number: int) -> TokenRow:
        """How a text is read, all its masks included; its number is for the message."""
        ids = self.tokenizer.masked(text)
        row = self.tokenizer.row(ids, longest=self.max_length)
        if self.tokenizer.mask not in ids:
            raise BadItem(number, f"there is no {self.mask} in it")
        if self._masks(row.tokens) < self._masks(ids):
            count = len(row.tokens)
            raise BadItem(number, f"a {self.mask} stands behind the {count} tokens read")
        return row

    def token_count(self, given: str, most: int) -> int:
        """A mask is one token."""
        return len(self.tokenizer.masked(given)) + self.tokenizer.template.specials(1)

    @torch.inference_mode()
    def predict(self, asked: Sequence[str]) -> list[FilledText]:
        """The words for every mask in each text, which has one or more."""
        asked = check_texts(asked)
        rows = [self.row(one, number) for number, one in enumerate(asked, start=1)]
        found = in_order((numbers, self._fills(batch)) for numbers, batch in self.batches(rows))
        return [self._filled(text, one) for text, one in zip(asked, found, strict=True)]

    def _fills(self, batch: PackedTokens) -> list[tuple[tuple[TokenFill, ...], ...]]:
        """For each row of a batch, the words of each of its masks."""
        masked_T = batch.tokens_T == self.tokenizer.mask
        outputs = self.model(batch, positions={MLMHead.name: masked_T.nonzero()[:, 0]})
        logits_NV = finite(outputs.by_head[MLMHead.name])
        probable_NV = torch.softmax(logits_NV, dim=-1)[:, : len(self.tokenizer.words)]
        probable_NW, best_NW = probable_NV.topk(self.top)
        named = map(self._named, best_NW.tolist(), probable_NW.tolist())
        masks = (int(row_L.sum()) for row_L in batch.layout.split(masked_T))
        return [tuple(islice(named, count)) for count in masks]

    def _masks(self, tokens: Ids) -> int:
        return int(np.equal(tokens, self.tokenizer.mask).sum())

    def _named(self, best: list[int], probable: list[float]) -> tuple[TokenFill, ...]:
        return tuple(map(TokenFill, self.tokenizer.words.pieces(best), probable))

    def _filled(self, text: str, blanks: tuple[tuple[TokenFill, ...], ...]) -> FilledText:
        filled, *others = text.split(self.mask)
        for (best, *_), part in zip(blanks, others, strict=True):
            filled = self.tokenizer.join(filled, best.word) + part
        return FilledText(filled, blanks)
