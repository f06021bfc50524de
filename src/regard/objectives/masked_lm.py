"""Masked language modelling (Devlin et al., 2018, section 3.1, task 1).

15% of the tokens of a row are chosen; 80% of these are replaced by the mask token, 10% by a random
token, 10% stay, and the model predicts the original token at each chosen position. The choice
depends on (seed, epoch, index of the row): each epoch masks anew (Liu et al., 2019, section 4.1).
Whole words, spans of words, or phrases and entities (Sun et al., 2019) may be chosen instead.
"""

from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import cast

import numpy as np
from pydantic import Field, model_validator
from torch import Tensor

from regard.core.batch import IGNORED, BatchLimits, pack_ids
from regard.core.config import Config
from regard.core.errors import BadInput
from regard.data.data_tables import FilesConfig
from regard.data.rows.mlm_masking import TokenMasker
from regard.models.label_heads import MLMHead
from regard.objectives.lexicon_phrases import Phrases
from regard.objectives.objective import padded
from regard.objectives.rows import Annotate, AnnotatedRow, RowBatch, RowObjective, Rows
from regard.text.tokenizers.encoder_tokenizer import EncoderTokenizer
from regard.text.tokenizers.row_tokenizer import RowTokenizer

LONGEST_SPAN = 10  # words (Joshi et al., 2019, section 3.1)


class MaskedLMConfig(Config):
    """The table ``[objective.masked-lm]``."""

    rate: float = Field(0.15, gt=0, le=0.5)
    """The share of tokens that are predicted."""
    whole_words: bool = False
    """Choose whole words (all their tokens), not single tokens."""
    ngrams: int = Field(1, ge=1, le=10)
    """Choose up to this many successive whole words at once, n of them with probability ∝ 1/n."""
    spans: float | None = Field(None, gt=0, lt=1)
    """Choose spans of up to ten whole words, n of them with probability ∝ (1-p)^(n-1), where p is
    this number (SpanBERT: 0.2); the tokens of a span are masked, replaced or kept together."""
    lexicon: str | tuple[str, ...] | None = None
    """Phrases and entities, or a file with one on each line: wherever one occurs, all of its tokens
    are chosen or none (ERNIE)."""
    tagged: FilesConfig | None = None
    """A file of tagged sentences and its `reader`, as for task = "tag": its labelled spans, such as
    entities, are phrases too."""
    weight: float = Field(1.0, ge=0)
    """The weight of the masked-LM loss in the sum of all objectives."""

    @model_validator(mode="after")
    def _one_way(self) -> "MaskedLMConfig":
        if self.spans is not None and self.ngrams > 1:
            raise ValueError("ngrams and spans cannot be used together; choose one")
        phrases = [key for key in ("lexicon", "tagged") if getattr(self, key) is not None]
        if phrases and (self.spans is not None or self.ngrams > 1):
            raise ValueError(f"{phrases[0]} cannot be used with ngrams or spans; choose one")
        if self.tagged is not None and self.tagged.file is None:
            raise ValueError('tagged: give a file and its reader, as in { reader = "CoNLL", ... }')
        return self


@dataclass(frozen=True)
class MaskedLM(RowObjective):
    """Masked-LM objective; the loss is the mean over the chosen positions of a step."""

    name, config, head = "masked-lm", MaskedLMConfig, MLMHead.name
    rate: float = 0.15
    whole_words: bool = False
    smoothing: float = 0.0
    ngrams: int = 1
    spans: float | None = None
    kept: float = 0.1
    random: float = 0.1
    loss_weight: float = 1.0
    phrases: Phrases | None = None

    @classmethod
    def from_config(cls, config: MaskedLMConfig, smoothing: float) -> "MaskedLM":
        named = config.lexicon is not None or config.tagged is not None
        return cls(
            rate=config.rate,
            whole_words=config.whole_words,
            ngrams=config.ngrams,
            spans=config.spans,
            phrases=Phrases(config.lexicon or (), config.tagged) if named else None,
            loss_weight=config.weight,
            smoothing=smoothing,
        )

    def open(self, data: Path, longest: int) -> None:
        if self.phrases is not None:
            self.phrases.read(data)

    @property
    def fingerprint(self) -> str:
        return "" if self.phrases is None else self.phrases.fingerprint

    def make_head(self) -> MLMHead:
        return MLMHead()

    def annotator(self, tokenizer: RowTokenizer) -> Annotate:
        tokenizer = cast(EncoderTokenizer, tokenizer)
        if "mask_token" not in tokenizer.names:
            lacks = f"masked LM needs a mask token, which tokenizers {tokenizer.family.name!r} lack"
            raise BadInput(f"objective: {lacks}: choose another model.paper or model.start")
        special = np.isin(np.arange(len(tokenizer.words)), list(tokenizer.special))
        ngrams = self.ngrams if self.spans is None else LONGEST_SPAN
        word_starts = ~tokenizer.continues if self.whole_words or ngrams > 1 else None
        masker = TokenMasker(
            tokenizer.mask,
            special,
            word_starts,
            self.rate,
            kept=self.kept,
            random=self.random,
            ngrams=ngrams,
            geometric=self.spans,
        )
        finder = None if self.phrases is None else self.phrases.finder(tokenizer)

        def annotate(rows: Rows, indices: np.ndarray, key: tuple[int, ...]) -> list[AnnotatedRow]:
            tokens = np.concatenate([example.row.tokens for example in rows])
            lengths = np.array([len(example.row.tokens) for example in rows], np.int64)
            joined = None if finder is None else finder.continuations(tokens, lengths)
            masked = masker.mask_rows(tokens, lengths, indices, key, joined).split(lengths)
            return [
                example.annotated(self.head, part.positions, part.originals, tokens=part.tokens)
                for example, part in zip(rows, masked, strict=True)
            ]

        return annotate

    def weight(self, example: AnnotatedRow) -> float:
        return len(example.positions[self.head])

    def collate_targets(self, batch: RowBatch) -> tuple[Tensor, Tensor]:
        """Chosen positions and their original tokens; with ``limits``, padded to a fixed size."""
        positions_N = pack_ids(batch.positions(self.head))
        count = len(positions_N)
        size = count if batch.limits is None else self.max_positions(batch.limits)
        if count > size:
            raise ValueError(f"{count} masked positions in a batch with room for {size}")
        targets_N = pack_ids(batch.targets(self.head))
        return padded(positions_N, size, 0), padded(targets_N, size, IGNORED)

    def max_positions(self, limits: BatchLimits) -> int:
        """The maximum number of chosen positions in a batch of fixed shape.

        Rounding adds at most half a position per row; a row of one word and two special tokens,
        whose share is less than one position, still has one.
        """
        extra = max(0.5, 1 - 3 * self.rate)
        return min(limits.tokens, ceil(self.rate * limits.tokens + extra * limits.rows))

    def expected_positions(self, tokens: int) -> int:
        return round(self.rate * tokens)
