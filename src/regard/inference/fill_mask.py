"""Filling masks: texts with mask tokens in, the most probable tokens for each mask out."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from regard.core.batch import Ids, PackedTokens, TokenRow
from regard.core.checks import check_whole
from regard.core.errors import BadInput, BadItem
from regard.core.tape import NULL_TAPE, NullTape
from regard.inference.component import Result, Row
from regard.inference.inputs import check_texts, verb_of
from regard.inference.predictor import Predictor
from regard.inference.row_batches import finite_logits, in_order, row_batches, run_batch
from regard.models.label_heads import MLMHead
from regard.models.trunk_with_heads import TrunkWithHeads
from regard.text.tokenizers.word_level import MASK, WordTokenizer
from regard.text.vocabulary import END, SPECIAL_WORDS


@dataclass(frozen=True)
class TokenFill:
    """A word (or a piece of one, such as ##ing) and its probability."""

    word: str
    probability: float


@dataclass(frozen=True)
class FilledText:
    """A text with the best word in place of each mask, and the ``top`` words for each mask."""

    text: str
    blanks: tuple[tuple[TokenFill, ...], ...]


@dataclass(frozen=True, eq=False)
class MaskFiller(Predictor[str, TokenRow, FilledText]):
    """The component "fill": the ``top`` most probable words for each mask of a text."""

    name = "fill"
    empty_record: ClassVar = {"text": None, "blanks": None}
    record_keys = (("text",),)
    columns = ("filled", "words")
    head: ClassVar[str] = MLMHead.name
    top: int = 5

    def __post_init__(self) -> None:
        check_whole("top: the number of words", self.top, 1, len(self.tokenizer.words))

    @property
    def mask(self) -> str:
        """The mask token."""
        return self.tokenizer.names["mask_token"]

    def row(self, text: str, number: int) -> TokenRow:
        """The row of a text, with all its masks; errors name the ``number`` of the input."""
        if self.mask not in text:
            raise BadItem(number, f"the text has no mask token {self.mask}")
        row = self.tokenizer.row(self.tokenizer.masked(text), longest=self.max_length)
        if len(self.masks(row.tokens)) < text.count(self.mask):
            count = len(row.tokens)
            raise BadItem(number, f"a {self.mask} is truncated: only {count} tokens are read")
        return row

    def masks(self, tokens: Ids) -> np.ndarray:
        """The positions of masks in a row."""
        return np.flatnonzero(np.equal(tokens, self.tokenizer.mask))

    def candidates(self, row: Row[str, TokenRow]) -> int:
        return self.top * len(self.masks(row.data.tokens))

    def shown(self, row: TokenRow) -> TokenRow:
        """Row that the model reads in place of this one; default: unchanged."""
        return row

    def token_count(self, given: str, most: int) -> int:
        return len(self.tokenizer.masked(given)) + self.tokenizer.template.specials(1)

    def rows(self, inputs: Sequence[str], keys: Sequence[int]) -> list[Row[str, TokenRow]]:
        texts = check_texts(inputs)
        rows = [self.row(text, number) for number, text in enumerate(texts, start=1)]
        read = zip(keys, texts, rows, strict=True)
        return [self.prepared(key, text, row, len(row.tokens)) for key, text, row in read]

    @torch.inference_mode()
    def values(
        self, rows: Sequence[Row[str, TokenRow]], tape: NullTape = NULL_TAPE
    ) -> list[FilledText]:
        masks = [self.masks(row.data.tokens) for row in rows]
        shown = [self.shown(row.data) for row in rows]
        fills = in_order(
            (numbers, self._fills(batch, [masks[number] for number in numbers], tape.next_batch()))
            for numbers, batch in row_batches(self.module, shown, self.limits, tape)
        )
        return [self._filled(row.given, blanks) for row, blanks in zip(rows, fills, strict=True)]

    def parse(self, line: str, where: str) -> str:
        return line

    def line(self, value: FilledText) -> str:
        masks = (", ".join(f"{w.word} {w.probability:.4f}" for w in top) for top in value.blanks)
        return "\t".join([" ".join(value.text.split("\t")), *masks])

    def cells(self, result: Result[FilledText]) -> list[dict[str, object]]:
        words = [[fill.word for fill in top] for top in result.value.blanks]
        return [{"filled": result.value.text, "words": words}]

    def record(self, value: FilledText) -> dict[str, object]:
        blanks = [[vars(fill) for fill in top] for top in value.blanks]
        return {"text": value.text, "blanks": blanks}

    def _fills(
        self, batch: PackedTokens, masks: Sequence[np.ndarray], tape: NullTape
    ) -> list[tuple[tuple[TokenFill, ...], ...]]:
        """For each row of a batch, the words for each of its masks."""
        starts = batch.layout.offsets[: len(masks)].tolist()
        at_N = np.concatenate([at + start for at, start in zip(masks, starts, strict=True)])
        read = self.read_at(torch.from_numpy(at_N).to(self.device))
        outputs = run_batch(self.module, batch, positions={self.head: read}, tape=tape)
        logits_NV = finite_logits(self.module, outputs.by_head[self.head])
        probable_NV = torch.softmax(self.allowed(logits_NV), dim=-1)[:, : len(self.tokenizer.words)]
        probable_NW, best_NW = probable_NV.topk(self.top)
        named = map(self._named, best_NW.tolist(), probable_NW.tolist())
        return [tuple(islice(named, len(at))) for at in masks]

    def read_at(self, at_N: Tensor) -> Tensor:
        """Positions that the head reads to predict the masks at ``at_N``; default: ``at_N``."""
        return at_N

    def allowed(self, logits_NV: Tensor) -> Tensor:
        """The logits, with -inf for words that may not fill a mask; default: all may."""
        return logits_NV

    def _named(self, best: list[int], probable: list[float]) -> tuple[TokenFill, ...]:
        return tuple(map(TokenFill, self.tokenizer.words.pieces(best), probable))

    def _filled(self, text: str, blanks: tuple[tuple[TokenFill, ...], ...]) -> FilledText:
        filled, *parts = text.split(self.mask)
        for (best, *_), part in zip(blanks, parts, strict=True):
            filled = self.tokenizer.join(filled, best.word) + part
        return FilledText(filled, blanks)


class ContextFiller(MaskFiller):
    """A mask filler by context vectors (context2vec): their products with all words are logits."""

    head: ClassVar[str] = "context"
    tokenizer: WordTokenizer

    @property
    def mask(self) -> str:
        return MASK

    def masks(self, tokens: Ids) -> np.ndarray:
        end = self.tokenizer.words.frame(END)
        return np.flatnonzero(np.equal(tokens[:-1], end))

    def shown(self, row: TokenRow) -> TokenRow:
        tokens = np.array(row.tokens)
        tokens[self.masks(tokens)] = self.tokenizer.unk
        return row._replace(tokens=tokens)

    def read_at(self, at_N: Tensor) -> Tensor:
        return torch.stack([at_N - 1, at_N + 1, at_N])

    def allowed(self, logits_NV: Tensor) -> Tensor:
        ids = self.tokenizer.words.lexicon.ids
        special = [ids[word] for word in SPECIAL_WORDS]
        return logits_NV.index_fill(1, torch.tensor(special), -torch.inf)  # both on the host


FILLERS: dict[str, type[MaskFiller]] = {kind.head: kind for kind in (MaskFiller, ContextFiller)}
"""Mask fillers by the head that they read."""


def mask_filler(facts: TrunkWithHeads) -> type[MaskFiller]:
    """The class of mask filler for the heads of a model."""
    fillers = [FILLERS[name] for name in facts.head_names if name in FILLERS]
    if not fillers:
        fault = "this model cannot fill masks: it has no masked-LM head"
        raise BadInput(f"{fault}; use {verb_of(facts)}")
    return fillers[0]
