"""Tokenizer of an encoder: a vocabulary with special tokens, and the rows made of texts."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from regard.core.errors import BadInput
from regard.text.templates import RowBuilder
from regard.text.tokenizers import FAMILIES
from regard.text.tokenizers.plain_tokenizer import KINDS
from regard.text.tokenizers.row_tokenizer import RowTokenizer
from regard.text.tokenizers.tokenizer_files import TokenizerFiles, all_files

IN_CONFIG = ("pad_token", "bos_token", "eos_token")  # roles whose ids config.json has


@dataclass(frozen=True, repr=False)
class EncoderTokenizer(TokenizerFiles, RowTokenizer):
    """Tokenizer with special tokens, of a family of Hugging Face.

    Ids equal ``transformers``' with one exception: "[SEP]" in a text is text.
    """

    name: ClassVar = "encoder"
    FILES: ClassVar = all_files()

    @property
    def pad(self) -> int:
        return self._id("pad_token")

    @property
    def unk(self) -> int:
        return self._id("unk_token")

    @property
    def cls(self) -> int:
        return self._id("cls_token")

    @property
    def sep(self) -> int:
        return self._id("sep_token")

    @property
    def mask(self) -> int:
        return self._id("mask_token")

    @property
    def eos(self) -> int:
        return self._special["eos_token"] if "eos_token" in self._special else super().eos

    @property
    def special_ids(self) -> dict[str, int]:
        return {role: self._special[role] for role in IN_CONFIG if role in self._special}

    @cached_property
    def special(self) -> frozenset[int]:
        """The ids of special tokens."""
        return frozenset(self._special.values())

    @cached_property
    def continues(self) -> np.ndarray:
        """Mask of the ids that continue a word."""
        pieces = self.words.pieces(range(len(self.words)))
        return np.array([self.family.continues_word(piece) for piece in pieces])

    @cached_property
    def template(self) -> RowBuilder:
        return self.family.row_builder(self.words, self._special)

    def masked(self, text: str) -> list[int]:
        parts = text.split(self.names["mask_token"])
        if self.words.strips_left(self.mask):
            parts = [*(part.rstrip() for part in parts[:-1]), parts[-1]]
        first, *rest = self.words.encode_all(parts)
        return first + [i for part in rest for i in (self.mask, *part)]

    def join(self, text: str, piece: str) -> str:
        """Append a piece, as ``words.pieces`` writes it, to a text."""
        return self.family.join(text, piece)

    def pieces(self, words: Sequence[str]) -> list[list[int]]:
        prefix = "" if self.words.adds_space else self.family.word_prefix
        return super().pieces([prefix + word for word in words])

    def encode_prompts(self, texts: Sequence[str]) -> list[list[int]]:
        first = self.template.template.parts(1)[0].name
        bos = [self.template.special[first]] if first == "bos" else []
        return [bos + ids for ids in super().encode_prompts(texts)]

    def _id(self, role: str) -> int:
        if role not in self._special:
            raise BadInput(f"this tokenizer has no {role.replace('_', ' ')}")
        return self._special[role]

    @cached_property
    def _special(self) -> dict[str, int]:
        return {role: self.words.number(name) for role, name in self.names.items()}


def train_encoder_tokenizer(
    texts: Iterable[str],
    kind: str,
    vocab: int,
    lower: bool = True,
    longest: int | None = 512,
    special_tokens: Sequence[str] = (),
) -> EncoderTokenizer:
    """Learn a tokenizer of the family ``kind`` from texts, with files for ``transformers``.

    The family's special tokens come first in the vocabulary, ``special_tokens`` last.
    """
    families = {family.name: family for family in FAMILIES}
    if (family := families.get(kind)) is None:
        *names, last = (name for name in families if name in KINDS)
        raise BadInput(f"text.kind: encoders learn {', '.join(names)} or {last}, not {kind!r}")
    reserved = [*family.special_tokens.values(), *special_tokens]
    if vocab < len(reserved):
        small = f"a vocabulary of {vocab} has no room for {', '.join(reserved)}"
        raise BadInput(f"text.vocab: {small}; write {len(reserved) + 1} or more")
    model, own = family.learn(texts, vocab - len(special_tokens), lower)
    return EncoderTokenizer.create(family, model, own, longest, special_tokens)
