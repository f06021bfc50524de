"""Tokenizer of T5 (Raffel et al., 2019): one SentencePiece vocabulary for source and target.

A decoder begins with the pad token, sources and targets end with EOS. Ids equal
``transformers.T5Tokenizer``'s, for texts with "<pad>", "</s>" or "<unk>" as with
``split_special_tokens``.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar

from tokenizers import Tokenizer

from regard.core.checks import is_whole
from regard.core.errors import BadInput
from regard.core.files import JSON
from regard.text.tokenizers.encoder_tokenizer import EncoderTokenizer
from regard.text.tokenizers.subwords import Subwords
from regard.text.tokenizers.tokenizer_files import WORDS
from regard.text.tokenizers.translation_tokenizer import TranslationTokenizer
from regard.text.tokenizers.unigram import FILE, T5Unigram, sentinel_ids

START, END = "decoder_start_token_id", "eos_token_id"


class T5Pieces(Subwords):
    """Vocabulary whose decoder begins with a given id; decoded texts have sentinels."""

    def __init__(self, content: str, bos: int) -> None:
        super().__init__(Tokenizer.from_str(content))
        self._bos = bos

    def __reduce__(self) -> tuple[Callable[..., "T5Pieces"], tuple[object, ...]]:
        return T5Pieces, (self._tokenizer.to_str(), self._bos)

    @property
    def bos(self) -> int:
        return self._bos

    @cached_property
    def sentinels(self) -> list[int]:
        """The ids of "<extra_id_0>", "<extra_id_1>", …; each stands for a span."""
        return sentinel_ids(self.pieces(range(len(self))))


@dataclass(frozen=True, repr=False)
class T5Tokenizer(TranslationTokenizer):
    """Tokenizer of an encoder-decoder in T5's form; ``encoder`` serves its encoder alone."""

    name: ClassVar = "t5"
    FILES: ClassVar = EncoderTokenizer.FILES

    source: T5Pieces
    target: T5Pieces
    encoder: EncoderTokenizer

    @classmethod
    def of(cls, encoder: EncoderTokenizer, bos: int | None = None) -> "T5Tokenizer":
        """Tokenizer for both sides; a decoder begins with ``bos``, by default the pad token."""
        words = T5Pieces(encoder.words.content, encoder.pad if bos is None else bos)
        return cls(words, words, encoder)

    @property
    def special_ids(self) -> dict[str, int]:
        start = {START.removesuffix("_id"): self.target.bos}
        return {"pad_token": self.pad, "eos_token": self.target.eos, **start}

    def of_side(self, side: str) -> EncoderTokenizer:
        return self.encoder

    def save(self, folder: Path) -> None:
        self.encoder.save(folder)
        for name in {*TranslationTokenizer.FILES} - {*self.FILES}:
            (folder / name).unlink(missing_ok=True)

    def json_files(self) -> dict[str, str]:
        return self.encoder.json_files()

    @staticmethod
    def load(folder: Path, bos: int | None = None) -> "T5Tokenizer":
        """Read tokenizer.json, or else spiece.model."""
        encoder = EncoderTokenizer.load(folder, T5Unigram())
        if encoder is None:
            raise BadInput(f"{folder}: has neither {WORDS} nor {FILE}")
        if encoder.family.name != T5Unigram.name:
            fault = f"its tokenizer is that of {encoder.family.classes[0]}"
            raise BadInput(f"{folder}: {fault}, but this model needs {T5Unigram.classes[0]}")
        return T5Tokenizer.of(encoder, bos)


def load_t5_tokenizer(folder: Path, config: Mapping[str, JSON]) -> T5Tokenizer | None:
    """The tokenizer of a folder with this config.json, which names the special ids; None: none."""
    if not any((folder / name).exists() for name in (WORDS, FILE)):
        return None
    begin = config.get(START)
    if not (begin is None or is_whole(begin)):
        raise BadInput(f"{folder}: {START} must be a token id, not {begin!r}")
    tokenizer = T5Tokenizer.load(folder, begin)
    eos = tokenizer.target.eos
    if config.get(END, eos) not in (eos, [eos]):
        raise BadInput(f"{folder}: {END} is {config[END]!r}, but the vocabulary has {eos}")
    return tokenizer
