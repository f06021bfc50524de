"""Recipe table ``text``: the tokenizer to train."""

from typing import ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from regard.core.config import Config
from regard.core.errors import did_you_mean
from regard.text.tokenizers.plain_tokenizer import KINDS
from regard.text.tokenizers.sentencepiece import KIND as SENTENCEPIECE
from regard.text.tokenizers.sentencepiece import RULES

LIBRARY_RULES = {SENTENCEPIECE: RULES}
"""Normalisations of kinds that a library learns with its own; keys are (normalise, lower)."""
DEFAULTS = {SENTENCEPIECE: {"normalise": "nfkc"}}
"""Default keys of kinds, where they differ."""


class TextConfig(Config):
    """Subword vocabulary: kind, size, normalisation, BPE-dropout.

    The task chooses the default ``kind``.
    """

    more_kinds: ClassVar[tuple[str, ...]] = ()
    kind: str | None = None
    """ "bpe", "byte-bpe", "unigram" or "wordpiece"; the default depends on the paper."""
    vocab: int = Field(8_000, ge=1)
    """The size of the vocabulary."""
    normalise: Literal["none", "nfc", "nfkc"] = "nfc"
    """Unicode normal form."""
    lower: bool = False
    """Lower-case all text."""
    dropout: float = Field(0.0, ge=0, lt=1)
    """The rate of BPE-dropout (arXiv:1910.13267) in training."""

    @classmethod
    def known_kinds(cls) -> tuple[str, ...]:
        """The values of ``kind``."""
        return (*KINDS, *cls.more_kinds)

    @field_validator("kind")
    @classmethod
    def _known(cls, kind: str | None) -> str | None:
        known = cls.known_kinds()
        if kind not in (None, *known):
            raise ValueError(f"no kind {kind!r}{did_you_mean(str(kind), list(known))}")
        return kind

    @model_validator(mode="after")
    def _has_merges(self) -> "TextConfig":
        if self.dropout and "bpe" not in (self.kind or "bpe"):
            raise ValueError(
                f"dropout (BPE-dropout) needs a BPE vocabulary, not kind {self.kind!r}"
            )
        return self


class TranslationTextConfig(TextConfig):
    """Subwords of a translator: one ``joint`` vocabulary for both languages, or two."""

    more_kinds: ClassVar[tuple[str, ...]] = (SENTENCEPIECE,)
    kind: str = "bpe"
    """ "bpe" (with byte fallback), "byte-bpe", "unigram" or "wordpiece", or "sentencepiece": a
    joint SentencePiece model with the files of a Marian folder, which other libraries read. It has
    `normalise = "nfkc"` (the default) or "none", and lower case only with "nfkc"."""
    joint: bool = True
    """One vocabulary for both languages."""

    @model_validator(mode="before")
    @classmethod
    def _default_rule(cls, keys: object) -> object:
        if not isinstance(keys, dict):
            return keys
        return {**DEFAULTS.get(str(keys.get("kind")), {}), **keys}

    @model_validator(mode="after")
    def _fits_library(self) -> "TranslationTextConfig":
        rules, needs = LIBRARY_RULES.get(self.kind), f"kind {self.kind!r} needs"
        if rules and not self.joint:
            raise ValueError(f"{needs} joint = true")
        if rules and (self.normalise, self.lower) not in rules:
            raise ValueError(f'{needs} normalise = "nfkc", or "none" without lower')
        return self


class EncoderTextConfig(TextConfig):
    """Subwords of an encoder that does not start from a folder (``model.start``)."""

    more_kinds: ClassVar[tuple[str, ...]] = ("words",)
    row_keys: ClassVar[tuple[str, ...]] = ()  # keys that do not describe the tokenizer
    kind: str | None = None
    """ "bpe", "byte-bpe", "unigram" or "wordpiece", or "words": whole words, without pieces; the
    default depends on the paper."""
    unknown: float = Field(0.0, ge=0, lt=1)
    """With `kind = "words"`: the share of words that is unknown in training, drawn in every epoch
    among those that occur once in the training data (Lample et al., 2016, arXiv:1603.01360)."""


class LabelTextConfig(EncoderTextConfig):
    """Subwords of a classifier, and texts longer than a row."""

    row_keys: ClassVar[tuple[str, ...]] = ("long", "stride")
    long: Literal["cut", "windows", "drop"] = "cut"
    """Texts of more than `batches.longest` tokens: "cut" (only the beginning is read), "windows"
    (overlapping rows, each with the label of the text; the mean of their logits is the prediction)
    or "drop" (not trained on)."""
    stride: int | None = Field(None, ge=0)
    """Tokens that neighbouring windows share, at most half a window; default: a quarter."""
