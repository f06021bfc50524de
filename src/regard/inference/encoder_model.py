"""Runners of trunks with heads: from inputs to rows, states, logits, vectors and results."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import Any, NoReturn, Self, TypeGuard, cast

import numpy as np
import torch
from torch import Tensor

from regard.core.batch import Ids, ImageRow, TokenRow
from regard.core.checks import check_whole, listed
from regard.core.errors import BadInput, BadItem, shown
from regard.core.layout import Layout
from regard.core.reading import NO_TEXT, RowReading
from regard.core.tape import NULL_TAPE, NullTape
from regard.images.processor import ImageProcessor
from regard.inference.embed import Embedder, EncoderInput, Prompt
from regard.inference.fill_mask import MaskFiller, mask_filler
from regard.inference.inputs import InputLimits, token_ids
from regard.inference.model_runner import ModelRunner
from regard.inference.row_batches import ModelRow, TextOrPair, row_logits
from regard.inference.score_text import WINDOW, StreamScorer, TextScorer
from regard.inference.text_tokens import TextPart, TextTokens, marks, places_of, word_parts
from regard.layers.linear.convert import in_precision
from regard.models.label_heads import MLMHead
from regard.models.patches import PatchEmbedding, Patches
from regard.models.trunk_with_heads import TrunkWithHeads, TrunkWithHeadsModule
from regard.text.segmentation import (
    LabelledImage,
    LabelledRow,
    LabelledRows,
    Segmentation,
    TokenLabels,
)
from regard.text.tokenizers.list import TrunkTokenizer
from regard.text.tokenizers.row_tokenizer import RowTokenizer, require_tokenizer
from regard.text.words import Span, check_text, one_or_two_texts, text_or_pair

NO_PROCESSOR = (
    "the folder has no settings to normalise images (no preprocessor_config.json; for timm: no "
    "mean and std in pretrained_cfg): give normalised floats (C, H, W)"
)
READABLE = "neither a text, a pair of texts, words nor token ids"


@dataclass(frozen=True, eq=False)
class EncoderModel(ModelRunner):
    """Runner of a trunk with heads. Without a tokenizer, it reads token ids only."""

    batch_size: int = 1_024

    @property
    def module(self) -> TrunkWithHeadsModule:
        return cast(TrunkWithHeadsModule, self.loaded.module)

    @property
    def facts(self) -> TrunkWithHeads:
        return cast(TrunkWithHeads, self.loaded.facts)

    @property
    def tokenizer(self) -> TrunkTokenizer | None:
        return cast(TrunkTokenizer | None, self.loaded.tokenizer)

    @property
    def text(self) -> RowTokenizer:
        """The tokenizer; a model without one cannot read texts."""
        return require_tokenizer(self.tokenizer)

    @property
    def reading(self) -> RowReading:
        """The tokenizer, or the image processor."""
        return self.text

    @property
    def position_limit(self) -> int | None:
        return self.facts.trunk.embed.limit

    @property
    def truncation(self) -> int | None:
        return smallest(self.max_length, self.text.longest, self.position_limit)

    def with_precision(self, kind: str, engine: str = "auto") -> Self:
        if engine != "auto":
            raise BadInput(f"engine {engine!r}: {self.loaded.paper.name} does not generate text")
        return self.with_module(in_precision(self.module, kind))

    def filler(self, top: int = 5) -> MaskFiller:
        """The component "fill", which fills masks with the ``top`` most probable words."""
        limits = self.batch_size, self.truncation
        return mask_filler(self.facts)(self.module, self.text, None, *limits, top)

    def embedder(
        self, pool: str | None = None, normalise: bool | None = None, prompt_name: str | None = None
    ) -> Embedder:
        notes = self.notes.get("embedding") or {}
        longest = notes.get("longest") if isinstance(notes, dict) else ""
        if longest is not None and not isinstance(longest, int):
            raise BadInput(f"config.json: notes.embedding does not describe a pool ({notes})")
        if pool is None and "hinders" in notes:
            raise BadInput(f"{notes['hinders']}; choose a pool")
        limit = None if self.tokenizer is None else self.truncation
        longest, lower = smallest(notes.get("longest"), limit), notes.get("lower", False)
        pool = pool or notes.get("pool", self.default_pool)
        return Embedder(
            self,
            partial(self.embedded_rows, longest=longest, lower=lower),
            self.facts.pooled_width if pool == "pooled" else self.facts.width_read,
            pool,
            notes.get("normalise", False) if normalise is None else normalise,
            self.summary,
            slice(None) if self.tokenizer is None else self.tokenizer.inner,
            longest,
            Prompt.of(notes, prompt_name),
        )

    def embedded_rows(
        self, inputs: Sequence[EncoderInput], longest: int | None, lower: bool
    ) -> Sequence[ModelRow]:
        """The rows of inputs to embed; with ``lower``, texts are lower-cased."""
        for number, given in enumerate(inputs, start=1):
            _check_unicode(given, number)
        texts = [text for text in inputs if _is_text(text)]
        if lower:
            texts = [
                text.lower() if isinstance(text, str) else (text[0].lower(), text[1].lower())
                for text in texts
            ]
        rows = iter(self.text.rows(texts, longest) if texts else [])
        return [
            next(rows) if _is_text(given) else self._row(given, False, number)
            for number, given in enumerate(inputs, start=1)
        ]

    @property
    def default_pool(self) -> str:
        """The default pool of ``embed``."""
        return "mean"

    @property
    def summary(self) -> str | None:
        """The place of the summary token in a row: "first", "last", or None."""
        if self.tokenizer is None:
            return self.facts.summaries[0]
        return self.tokenizer.template.template.summary

    def scorer(
        self, window: int | None = None, stride: int | None = None, top: int = 0
    ) -> TextScorer:
        for name, tokens, least in (("window", window, 2), ("stride", stride, 1)):
            if tokens is not None:
                check_whole(name, tokens, least)
        check_whole("top", top, 0)
        own = None if self.tokenizer is None else self.tokenizer.longest
        most = smallest(own, self.position_limit)
        if window is not None and most is not None and window > most:
            raise BadInput(f"a window of {window:,} tokens: the model reads at most {most:,}")
        most = window or most or WINDOW
        kind = StreamScorer if self.facts.trunk.stack.carries_state else TextScorer
        return kind(self, most, stride, top)

    def parse(self, line: str, where: str) -> object:
        return text_or_pair(line, where)

    def token_count(self, given: TextOrPair, most: int) -> int:
        return self.text.count(one_or_two_texts(given, 1), most)

    def read_rows(
        self, inputs: Iterable[EncoderInput], *, masks: bool = False
    ) -> Sequence[ModelRow]:
        """Texts as rows, truncated; token ids unchanged.

        With ``masks``, texts may contain the mask token. Rows the model cannot read are errors.
        """
        numbered = enumerate(listed(inputs), start=1)
        return [self._row(given, masks, number) for number, given in numbered]

    def tokens(self, inputs: Iterable[EncoderInput]) -> list[TextTokens]:
        numbered = enumerate(listed(inputs), start=1)
        return [self._tokens(given, self._row(given, False, n)) for n, given in numbered]

    def _tokens(self, given: EncoderInput, row: TokenRow) -> TextTokens:
        if self.tokenizer is None:
            return TextTokens.of([str(token) for token in row.tokens], row.tokens)
        inner, words = self.tokenizer.inner, self.tokenizer.words
        ids, parts = np.asarray(row.tokens)[inner], self._parts(given)
        if not parts:
            return TextTokens.of(words.pieces(ids.tolist()), ids)
        marked = marks(parts)
        joined = [[*chain(*marked)]] if _is_words(given) else marked
        places = places_of(self.tokenizer.row_of_marks(joined, self.truncation).tokens)
        return TextTokens.of(words.pieces(ids.tolist()), ids, parts, places[inner])

    def label_ids(self, first: Ids, second: Ids | None = None) -> LabelledRows:
        if second is not None:
            raise BadInput("this model reads the ids of one row: give one list")
        (row,) = cast(Sequence[TokenRow], self.read_rows([first]))
        ids = np.asarray(row.tokens).tolist()
        names = [*map(str, ids)] if self.tokenizer is None else self.text.words.pieces(ids)
        labels = TokenLabels.of_tokens(names)
        return {"trunk": LabelledRow(row, labels, labels)}

    def _parts(self, given: EncoderInput) -> list[TextPart]:
        """The texts of an input, or its words, with their tokens; none of token ids."""
        segment = self.text.words.segment
        if _is_words(given):
            return word_parts(given, [self._word(segment(word), word) for word in given])
        if not _is_text(given):
            return []
        texts = one_or_two_texts(given, 1)
        return [TextPart(text, segment(text), number) for number, text in enumerate(texts)]

    def _word(self, cut: Segmentation, word: str) -> Segmentation:
        """Segmentation of a word; a word without tokens becomes the unknown token."""
        if len(cut.spans):
            return cut
        return Segmentation((self.text.unk,), (Span(0, len(word)),), (0,))

    def split(self, states_TD: Tensor, layout: Layout) -> Sequence[Tensor]:
        inner = slice(None) if self.tokenizer is None else self.tokenizer.inner
        return [row[inner] for row in layout.split(states_TD)]

    def logits(
        self, inputs: Iterable[EncoderInput], tape: NullTape = NULL_TAPE, head: str | None = None
    ) -> list[Tensor]:
        rows = self.read_rows(inputs, masks=self.facts.head(MLMHead.name) is not None)
        heads = {
            kind.name: kind
            for kind in sorted(self.facts.output_heads, key=lambda kind: kind.logits_order or 0)
            if kind.logits_order is not None and not kind.needs_positions
        }
        if not heads:
            raise BadInput("this model has no output head; use encode()")
        if head is not None and head not in heads:
            raise BadInput(f"head must be one of {', '.join(heads)}, not {shown(head)}")
        with tape.batches() as run:
            chosen = heads[head or next(iter(heads))]
            return row_logits(self.module, chosen, rows, self.limits, run)

    @cached_property
    def input_limits(self) -> InputLimits:
        """Limits of the token ids that the model reads."""
        return InputLimits.of(self.module.encoder)

    def _row(self, given: EncoderInput, masks: bool, number: int) -> TokenRow:
        if isinstance(given, TokenRow):
            return self._checked(given, number)
        _check_unicode(given, number)
        if isinstance(given, str) and masks:
            return self.text.row(self.text.masked(given), longest=self.truncation)
        if _is_text(given):
            return self.text.rows([given], self.truncation)[0]
        if _is_words(given):
            words = [check_text(word, number) for word in given]
            return self.text.template.row_of_words(self.text.pieces(words), self.truncation).row
        ids = token_ids(given, number, READABLE)
        self.input_limits.check(ids, number)
        return TokenRow(ids, np.zeros_like(ids))

    def _checked(self, row: TokenRow, number: int) -> TokenRow:
        tokens = token_ids(row.tokens, number, READABLE)
        self.input_limits.check_row(row._replace(tokens=tokens), number)
        return row


def smallest(*limits: int | None) -> int | None:
    """Smallest of several limits; None means no limit."""
    return min((limit for limit in limits if limit is not None), default=None)


def _check_unicode(given: EncoderInput, number: int) -> None:
    if _is_text(given):
        for text in (given,) if isinstance(given, str) else given:
            check_text(text, number)


def _is_words(given: EncoderInput) -> TypeGuard[Sequence[str]]:
    """Whether an input is a list of words."""
    return isinstance(given, list) and bool(given) and isinstance(given[0], str)


def _is_text(given: EncoderInput) -> TypeGuard[TextOrPair]:
    """Whether an input is a text or a pair of texts."""
    return isinstance(given, str) or (
        isinstance(given, tuple) and len(given) == 2 and all(isinstance(t, str) for t in given)
    )


@dataclass(frozen=True, eq=False)
class ImageModel(EncoderModel):
    """Runner of a trunk with heads over patches; its ``tokenizer`` is an image processor."""

    @property
    def text(self) -> NoReturn:
        raise BadInput(NO_TEXT)

    @property
    def reading(self) -> ImageProcessor:
        return self.processor

    @property
    def truncation(self) -> None:
        """None: images are not truncated."""

    @property
    def default_pool(self) -> str:
        pool, embed = self.facts.pool, self.facts.trunk.embed
        averages = pool is not None and pool.first_read is None
        return "mean" if averages or not embed.prefix_tokens else "first"

    @property
    def summary(self) -> str | None:
        return "first" if self.facts.trunk.embed.prefix_tokens else None

    def embedder(
        self, pool: str | None = None, normalise: bool | None = None, prompt_name: str | None = None
    ) -> Embedder:
        if pool == "first" and self.summary is None:
            raise BadInput("pool 'first': this model has no class token; mean and max read patches")
        return super().embedder(pool, normalise, prompt_name)

    @property
    def processor(self) -> ImageProcessor:
        """The image processor; without one, a ``NumbersOnly``."""
        return cast(ImageProcessor | None, self.loaded.tokenizer) or NumbersOnly()

    def listed(self, inputs: Iterable[object], of: str = "images") -> list[Any]:
        return listed(inputs, of, "image")

    def read_rows(self, inputs: Iterable[object], *, masks: bool = False) -> list[ImageRow]:
        return self.processor.rows(self.listed(inputs))

    def tokens(self, inputs: Iterable[object]) -> NoReturn:
        raise BadInput(NO_TEXT)

    def label_image(self, image: object) -> LabelledImage:
        (row,) = self.read_rows([image])
        try:
            values_CHW = row.read()
        except BadItem as bad:  # its number says nothing of a single image
            raise BadInput(bad.reason) from None
        embed = cast(PatchEmbedding, self.module.trunk.embed)
        grid = embed.grid_of(torch.from_numpy(values_CHW[None]))
        pixels_HWC = self.processor.denormalised(values_CHW)
        names = cast(Patches, self.facts.trunk.embed).prefix_names
        return LabelledImage(ImageRow(lambda: values_CHW), pixels_HWC, grid, names)

    def embedded_rows(
        self, inputs: Sequence[object], longest: int | None, lower: bool
    ) -> list[ImageRow]:
        return self.read_rows(inputs)

    def parse(self, line: str, where: str) -> Path:
        return Path(line)

    def token_count(self, given: object, most: int) -> int:
        return 1

    def filler(self, top: int = 5) -> NoReturn:
        raise BadInput(NO_TEXT)

    def scorer(
        self, window: int | None = None, stride: int | None = None, top: int = 0
    ) -> NoReturn:
        raise BadInput(NO_TEXT)


class NumbersOnly(ImageProcessor):
    """Image processor that reads arrays of floats, and refuses images that need normalising."""

    def denormalised(self, values_CHW: np.ndarray) -> np.ndarray:
        least, most = values_CHW.min(), values_CHW.max()
        shares_CHW = (values_CHW - least) / max(most - least, 1e-12)
        return np.rint(255 * shares_CHW).astype(np.uint8).transpose(1, 2, 0)

    def resized(self, image: object) -> NoReturn:
        raise BadInput(NO_PROCESSOR)
